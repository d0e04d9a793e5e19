package credit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Type codes of the Java object serialization stream.
const (
	tcNull           = 0x70
	tcReference      = 0x71
	tcClassDesc      = 0x72
	tcObject         = 0x73
	tcString         = 0x74
	tcArray          = 0x75
	tcClass          = 0x76
	tcBlockData      = 0x77
	tcEndBlockData   = 0x78
	tcReset          = 0x79
	tcBlockDataLong  = 0x7A
	tcLongString     = 0x7C
	tcProxyClassDesc = 0x7D
	tcEnum           = 0x7E

	scWriteMethod    = 0x01
	scSerializable   = 0x02
	scExternalizable = 0x04
	scBlockData      = 0x08

	baseHandle = 0x7E0000
)

// Limits of what a peer's exception may be. A real one has a few hundred objects and a depth of ten or so.
const (
	maxJavaHandles = 1 << 18 // objects, strings and classes
	maxJavaDepth   = 512     // nesting of objects
	maxJavaSupers  = 64      // length of a chain of super classes
	maxCauses      = 64      // length of the chain of causes that is kept
	maxJavaMessage = 16 << 10
	maxJavaStack   = 64 << 10 // stack trace as text
)

var errJava = errors.New("bad Java object stream")

// jkey names the fields that are kept; all others are skipped.
type jkey uint8

const (
	keyNone jkey = iota
	keyMessage
	keyCause
	keyStack
	keyFullStack
	keyDeclaringClass
	keyMethodName
	keyFileName
	keyLine
	keyElement // of an array
)

const classStackTraceElement = "java.lang.StackTraceElement"

// keyOf tells whether a field is kept.
func keyOf(class, field string) jkey {
	switch class {
	case ClassThrowable:
		switch field {
		case "detailMessage":
			return keyMessage
		case "cause":
			return keyCause
		case "stackTrace":
			return keyStack
		}
	case "java.lang.reflect.InvocationTargetException":
		if field == "target" { // these two have no cause of their own, and a getCause that returns the field
			return keyCause
		}
	case "java.lang.reflect.UndeclaredThrowableException":
		if field == "undeclaredThrowable" {
			return keyCause
		}
	case ClassSerialized:
		if field == "fullStringifiedStackTrace" {
			return keyFullStack
		}
	case classStackTraceElement:
		switch field {
		case "declaringClass":
			return keyDeclaringClass
		case "methodName":
			return keyMethodName
		case "fileName":
			return keyFileName
		case "lineNumber":
			return keyLine
		}
	}
	return keyNone
}

// noRef is the null reference.
const noRef = int32(-1)

// jfield is a field of a class: JVM type code and whether it is kept.
type jfield struct {
	typ byte
	key jkey
}

// jclass is a class descriptor.
type jclass struct {
	name   string
	flags  byte
	fields []jfield
	super  int32 // index in parser.classes, noRef: none
	chain  int   // length of the chain from here up
}

// jhandle is an entry of the handle table.
type jhandle struct {
	kind     byte  // a type code
	class    int32 // index in parser.classes, noRef: none
	off, len int32 // of a string's bytes
}

// jprop is a kept field: object and value are handles (or the value a number).
type jprop struct {
	obj, val int32
	key      jkey
}

// javaParser walks a stream. It keeps offsets and handles, no values, so that what it allocates is a small multiple of the
// bytes it has read.
type javaParser struct {
	b       []byte
	pos     int
	handles []jhandle
	classes []jclass
	props   []jprop
	depth   int
}

// ParseThrowable reads a Java object stream that holds one exception and returns it with the number of bytes it took.
// Messages are cut at 16 KiB, stack traces at 64 KiB, the chain of causes at 64.
func ParseThrowable(b []byte) (*Throwable, int, error) {
	p := javaParser{b: b}
	head, err := p.take(4)
	if err != nil {
		return nil, 0, err
	}
	if binary.BigEndian.Uint32(head) != 0xACED0005 {
		return nil, 0, fmt.Errorf("%w: does not begin with ac ed 00 05", errJava)
	}
	for p.pos < len(b) && b[p.pos] == tcReset { // nothing to clear yet
		p.pos++
	}
	root, err := p.value()
	if err != nil {
		return nil, 0, err
	}
	if root == noRef || p.handles[root].kind != tcObject {
		return nil, 0, fmt.Errorf("%w: no object", errJava)
	}
	t := p.throwable(root)
	if !t.InstanceOf(ClassThrowable) {
		return nil, 0, fmt.Errorf("%w: %s is not a Throwable", errJava, t.Class)
	}
	return t, p.pos, nil
}

func (p *javaParser) bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s at byte %d", errJava, fmt.Sprintf(format, args...), p.pos)
}

func (p *javaParser) take(n int) ([]byte, error) {
	if n < 0 || n > len(p.b)-p.pos {
		return nil, p.bad("cut off")
	}
	b := p.b[p.pos : p.pos+n]
	p.pos += n
	return b, nil
}

func (p *javaParser) u8() (byte, error) {
	b, err := p.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

func (p *javaParser) u16() (int, error) {
	b, err := p.take(2)
	if err != nil {
		return 0, err
	}
	return int(binary.BigEndian.Uint16(b)), nil
}

func (p *javaParser) i32() (int32, error) {
	b, err := p.take(4)
	if err != nil {
		return 0, err
	}
	return getI32(b), nil
}

// utf reads a short modified UTF-8 string and returns its bytes.
func (p *javaParser) utf() ([]byte, error) {
	n, err := p.u16()
	if err != nil {
		return nil, err
	}
	return p.take(n)
}

// add makes a new handle.
func (p *javaParser) add(h jhandle) (int32, error) {
	if len(p.handles) >= maxJavaHandles {
		return noRef, p.bad("more than %d objects", maxJavaHandles)
	}
	p.handles = append(p.handles, h)
	return int32(len(p.handles) - 1), nil
}

// reference reads a handle.
func (p *javaParser) reference() (int32, error) {
	v, err := p.i32()
	if err != nil {
		return noRef, err
	}
	if h := int64(v) - baseHandle; h >= 0 && h < int64(len(p.handles)) {
		return int32(h), nil
	}
	return noRef, p.bad("handle %#x", v)
}

// enter counts the nesting.
func (p *javaParser) enter() error {
	if p.depth++; p.depth > maxJavaDepth {
		return p.bad("nested deeper than %d", maxJavaDepth)
	}
	return nil
}

// value reads one object, string, array, class, enum, reference or null and returns its handle, or noRef.
func (p *javaParser) value() (int32, error) {
	tc, err := p.u8()
	if err != nil {
		return noRef, err
	}
	return p.valueOf(tc)
}

func (p *javaParser) valueOf(tc byte) (int32, error) {
	if err := p.enter(); err != nil {
		return noRef, err
	}
	defer func() { p.depth-- }()
	switch tc {
	case tcNull:
		return noRef, nil
	case tcReference:
		return p.reference()
	case tcString, tcLongString:
		return p.str(tc)
	case tcClassDesc, tcProxyClassDesc:
		p.pos--
		_, h, err := p.classDesc()
		return h, err
	case tcClass:
		c, _, err := p.classDesc()
		if err != nil {
			return noRef, err
		}
		return p.add(jhandle{kind: tc, class: c})
	case tcObject:
		return p.object()
	case tcArray:
		return p.array()
	case tcEnum:
		c, _, err := p.classDesc()
		if err != nil {
			return noRef, err
		}
		h, err := p.add(jhandle{kind: tc, class: c})
		if err == nil {
			_, err = p.value()
		}
		return h, err
	}
	p.pos--
	return noRef, p.bad("type code %#02x", tc)
}

func (p *javaParser) str(tc byte) (int32, error) {
	var n int64
	if tc == tcString {
		v, err := p.u16()
		if err != nil {
			return noRef, err
		}
		n = int64(v)
	} else {
		b, err := p.take(8)
		if err != nil {
			return noRef, err
		}
		n = int64(binary.BigEndian.Uint64(b))
	}
	if n < 0 || n > int64(len(p.b)-p.pos) {
		return noRef, p.bad("string of %d bytes", n)
	}
	h, err := p.add(jhandle{kind: tcString, class: noRef, off: int32(p.pos), len: int32(n)})
	p.pos += int(n)
	return h, err
}

// classDesc reads a class descriptor, a reference to one, or null; it returns its index in classes and its handle.
func (p *javaParser) classDesc() (class, handle int32, err error) {
	if err := p.enter(); err != nil {
		return noRef, noRef, err
	}
	defer func() { p.depth-- }()
	tc, err := p.u8()
	if err != nil {
		return noRef, noRef, err
	}
	switch tc {
	case tcNull:
		return noRef, noRef, nil
	case tcReference:
		h, err := p.reference()
		if err != nil {
			return noRef, noRef, err
		}
		if k := p.handles[h].kind; k != tcClassDesc && k != tcProxyClassDesc {
			return noRef, noRef, p.bad("reference to something else than a class")
		}
		return p.handles[h].class, h, nil
	case tcClassDesc, tcProxyClassDesc:
	default:
		p.pos--
		return noRef, noRef, p.bad("type code %#02x instead of a class", tc)
	}
	var c jclass
	if tc == tcClassDesc {
		name, err := p.utf()
		if err != nil {
			return noRef, noRef, err
		}
		c.name = decodeUTF(name, maxJavaMessage)
		if _, err := p.take(8); err != nil { // serialVersionUID
			return noRef, noRef, err
		}
	}
	// The class takes its handle before its fields, which may refer to it.
	class = int32(len(p.classes))
	if handle, err = p.add(jhandle{kind: tc, class: class}); err != nil {
		return noRef, noRef, err
	}
	c.super = noRef
	p.classes = append(p.classes, c)
	if tc == tcClassDesc {
		err = p.fields(&c)
	} else {
		c.name, c.flags = "java.lang.reflect.Proxy", scSerializable
		err = p.interfaces()
	}
	if err == nil {
		err = p.custom() // annotations
	}
	if err == nil {
		c.super, _, err = p.classDesc()
	}
	if err != nil {
		return noRef, noRef, err
	}
	c.chain = 1
	if c.super != noRef {
		c.chain += p.classes[c.super].chain
	}
	// A class that is its own super class has chain 0 here: its descriptor is not complete yet.
	if c.chain > maxJavaSupers || c.super != noRef && p.classes[c.super].chain == 0 {
		return noRef, noRef, p.bad("chain of super classes")
	}
	p.classes[class] = c
	return class, handle, nil
}

// fields reads flags and fields of a class.
func (p *javaParser) fields(c *jclass) (err error) {
	if c.flags, err = p.u8(); err != nil {
		return err
	}
	n, err := p.u16()
	if err != nil {
		return err
	}
	if n*3 > len(p.b)-p.pos {
		return p.bad("%d fields", n)
	}
	for range n {
		typ, err := p.u8()
		if err != nil {
			return err
		}
		if primitiveSize(typ) == 0 && typ != 'L' && typ != '[' {
			return p.bad("field type %q", typ)
		}
		name, err := p.utf()
		if err != nil {
			return err
		}
		if typ == 'L' || typ == '[' {
			h, err := p.value()
			if err != nil {
				return err
			}
			if h == noRef || p.handles[h].kind != tcString {
				return p.bad("field type is no string")
			}
		}
		c.fields = append(c.fields, jfield{typ: typ, key: keyOf(c.name, string(name))})
	}
	return nil
}

// interfaces reads the interface names of a proxy class.
func (p *javaParser) interfaces() error {
	n, err := p.i32()
	if err != nil {
		return err
	}
	if n < 0 || int(n) > (len(p.b)-p.pos)/2 {
		return p.bad("%d interfaces", n)
	}
	for range n {
		if _, err := p.utf(); err != nil {
			return err
		}
	}
	return nil
}

// custom reads objects and block data up to the end marker.
func (p *javaParser) custom() error {
	for {
		tc, err := p.u8()
		if err != nil {
			return err
		}
		switch tc {
		case tcEndBlockData:
			return nil
		case tcBlockData:
			n, err := p.u8()
			if err == nil {
				_, err = p.take(int(n))
			}
			if err != nil {
				return err
			}
		case tcBlockDataLong:
			n, err := p.i32()
			if err == nil {
				_, err = p.take(int(n))
			}
			if err != nil {
				return err
			}
		default:
			if _, err := p.valueOf(tc); err != nil {
				return err
			}
		}
	}
}

func (p *javaParser) object() (int32, error) {
	c, _, err := p.classDesc()
	if err != nil {
		return noRef, err
	}
	if c == noRef {
		return noRef, p.bad("object without class")
	}
	obj, err := p.add(jhandle{kind: tcObject, class: c})
	if err != nil {
		return noRef, err
	}
	// Class data comes from the topmost super class down.
	var chain [maxJavaSupers]int32
	n := 0
	for ; c != noRef; c = p.classes[c].super {
		if n == len(chain) || p.classes[c].chain == 0 {
			return noRef, p.bad("chain of super classes")
		}
		chain[n] = c
		n++
	}
	for n > 0 {
		n--
		if err := p.classData(obj, chain[n]); err != nil {
			return noRef, err
		}
	}
	return obj, nil
}

// classData reads what one class has to say about an object.
func (p *javaParser) classData(obj, class int32) error {
	flags := p.classes[class].flags
	switch {
	case flags&scExternalizable != 0:
		if flags&scBlockData == 0 {
			return p.bad("externalizable object without block data")
		}
		return p.custom()
	case flags&scSerializable == 0:
		return nil
	}
	fields := p.classes[class].fields
	if flags&scWriteMethod != 0 && len(fields) > 0 && primitiveSize(fields[0].typ) == 0 && p.pos < len(p.b) {
		switch p.b[p.pos] {
		case tcBlockData, tcBlockDataLong, tcEndBlockData:
			fields = nil // the class writes for itself, and did not write its fields: no value begins like that
		}
	}
	for _, f := range fields {
		if size := primitiveSize(f.typ); size > 0 {
			b, err := p.take(size)
			if err != nil {
				return err
			}
			if f.key == keyLine && size == 4 {
				p.props = append(p.props, jprop{obj: obj, key: f.key, val: getI32(b)})
			}
			continue
		}
		v, err := p.value()
		if err != nil {
			return err
		}
		if f.key != keyNone && v != noRef {
			p.props = append(p.props, jprop{obj: obj, key: f.key, val: v})
		}
	}
	if flags&scWriteMethod != 0 {
		return p.custom()
	}
	return nil
}

func (p *javaParser) array() (int32, error) {
	c, _, err := p.classDesc()
	if err != nil {
		return noRef, err
	}
	if c == noRef || len(p.classes[c].name) < 2 || p.classes[c].name[0] != '[' {
		return noRef, p.bad("array without an array class")
	}
	name := p.classes[c].name
	arr, err := p.add(jhandle{kind: tcArray, class: c})
	if err != nil {
		return noRef, err
	}
	n, err := p.i32()
	if err != nil {
		return noRef, err
	}
	if n < 0 || int(n) > len(p.b)-p.pos { // an element takes a byte or more
		return noRef, p.bad("array of %d", n)
	}
	if size := primitiveSize(name[1]); size > 0 {
		_, err := p.take(int(n) * size)
		return arr, err
	}
	keep := strings.Contains(name, classStackTraceElement)
	for range n {
		v, err := p.value()
		if err != nil {
			return noRef, err
		}
		if keep && v != noRef {
			p.props = append(p.props, jprop{obj: arr, key: keyElement, val: v})
		}
	}
	return arr, nil
}

// primitiveSize is the size of a value of a primitive type, 0 for other types.
func primitiveSize(typ byte) int {
	switch typ {
	case 'B', 'Z':
		return 1
	case 'C', 'S':
		return 2
	case 'F', 'I':
		return 4
	case 'D', 'J':
		return 8
	}
	return 0
}
