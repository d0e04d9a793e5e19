package credit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// stream takes the Java object stream out of an ErrorResponse frame.
func stream(frame []byte) []byte {
	end := len(frame) - 1
	if frame[end] != 0 || len(frame) > 300 {
		end = len(frame) - 17
	}
	return frame[FrameHeaderLen:end]
}

// TestParseStockErrors parses what stock servers send: nested objects, back references, field ordering.
func TestParseStockErrors(t *testing.T) {
	g := golden(t)
	for _, tc := range []struct {
		name, class, message, super string
		is                          error
	}{
		{"io-boom", ClassIOException, "boom", "java.lang.Exception", nil},
		{"pnf-stock", ClassPartitionNotFound, "Partition " + testPartitionText + " not found.", ClassIOException, ErrPartitionNotFound},
		{"pf-hello", ClassProducerFailed, "hello", ClassCancelTask, ErrProducerFailed},
	} {
		e, err := ParseErrorResponse(g[tc.name][FrameHeaderLen:])
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		c := e.Cause
		if c.Class != tc.class || c.Message != tc.message || !c.HasMessage || !c.InstanceOf(tc.super) || c.InstanceOf("x") || c.Cause != nil || c.Stack != "" {
			t.Errorf("%s: got %+v", tc.name, c)
		}
		if e.Fatal || e.Receiver != goldenChannel || e.StreamLen != len(stream(g[tc.name])) {
			t.Errorf("%s: got %+v", tc.name, e)
		}
		for _, s := range []error{ErrPartitionNotFound, ErrProducerFailed} {
			if errors.Is(c, s) != (s == tc.is) {
				t.Errorf("%s is %v: %v", tc.name, s, errors.Is(c, s))
			}
		}
	}
}

// TestAppendThrowable: every class of the table is written in a form that reads back, with the messages that are hard to write.
func TestAppendThrowable(t *testing.T) {
	for class := range errorClasses {
		for _, message := range []string{"", "boom", "nul \x00, \u00e4, \u20ac, \U0001F600", strings.Repeat("x", 100_000), strings.Repeat("\x00", 100_000), strings.Repeat("\U0001F600", 50_000), "bad \xff\xfe utf-8"} {
			b := AppendThrowable([]byte("head"), class, message)[4:]
			got, n, err := ParseThrowable(append(bytes.Clone(b), 0))
			if err != nil {
				t.Fatalf("%s: %v", class, err)
			}
			want := string([]rune(message)) // each invalid byte becomes U+FFFD
			if len(message) > maxErrorMessage {
				want = want[:1000]
				got.Message = got.Message[:1000]
			}
			if n != len(b) || got.Class != class || !got.HasMessage || got.Message != want && len(message) < 100 || !strings.HasPrefix(got.Message, want[:min(len(want), 16)]) {
				t.Fatalf("%s: got %s %q (%d of %d bytes), want %q", class, got.Class, got.Message, n, len(b), want)
			}
			if !got.InstanceOf(ClassThrowable) {
				t.Fatalf("%s: super classes %q", class, got.Supers)
			}
		}
	}
	// A class that the client may not have would cost it the connection.
	got, _, err := ParseThrowable(AppendThrowable(nil, "my.Own", "boom"))
	if err != nil || got.Class != ClassIOException || got.Message != "my.Own: boom" {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestAppendError: Go errors become the classes that make a stock client do the right thing.
func TestAppendError(t *testing.T) {
	for _, tc := range []struct {
		err   error
		class string
	}{
		{&ChannelError{Partition: goldenPartition, Index: -1, Err: ErrPartitionNotFound}, ClassPartitionNotFound},
		{&ChannelError{Index: 1, Err: ErrProducerFailed}, ClassProducerFailed},
		{errors.New("x"), ClassIOException},
		{&Throwable{Class: ClassIllegalState, Message: "x", HasMessage: true}, ClassIllegalState},
		{&ConnError{Err: &Throwable{Class: "unknown.Class"}}, ClassIOException},
	} {
		for _, fatal := range []bool{false, true} {
			frame := AppendError(nil, tc.err, goldenChannel, fatal)
			if int(binary.BigEndian.Uint32(frame)) != len(frame) {
				t.Errorf("%v: length %d of %d", tc.err, binary.BigEndian.Uint32(frame), len(frame))
			}
			e, err := ParseErrorResponse(frame[FrameHeaderLen:])
			if err != nil || e.Fatal != fatal || e.Cause.Class != tc.class {
				t.Errorf("%v: got %+v, %v, want %s", tc.err, e, err, tc.class)
			}
		}
	}
}

// javaBuilder writes streams that Flink would not.
type javaBuilder struct{ b []byte }

func (j *javaBuilder) raw(p ...byte) *javaBuilder { j.b = append(j.b, p...); return j }
func (j *javaBuilder) utf(s string) *javaBuilder  { j.b = appendUTF(j.b, s); return j }
func (j *javaBuilder) i32(v int32) *javaBuilder   { j.b = appendI32(j.b, v); return j }
func (j *javaBuilder) head() *javaBuilder         { return j.raw(0xAC, 0xED, 0, 5) }

// class begins a class descriptor up to the number of fields.
func (j *javaBuilder) class(name string, flags byte, fields uint16) *javaBuilder {
	j.raw(tcClassDesc).utf(name).raw(0, 0, 0, 0, 0, 0, 0, 1, flags)
	return j.raw(byte(fields>>8), byte(fields))
}

// throwableDesc is the descriptor of Throwable with the four fields of a real one.
func (j *javaBuilder) throwableDesc() *javaBuilder {
	j.class(ClassThrowable, scSerializable|scWriteMethod, 3)
	j.raw('L').utf("cause").raw(tcString).utf("Ljava/lang/Throwable;")
	j.raw('L').utf("detailMessage").raw(tcString).utf("Ljava/lang/String;")
	j.raw('[').utf("stackTrace").raw(tcString).utf("[Ljava/lang/StackTraceElement;")
	return j.raw(tcEndBlockData, tcNull)
}

// TestParseNested: cause chains, cycles, stack traces, arrays, enums, proxies, custom data, long strings.
func TestParseNested(t *testing.T) {
	j := new(javaBuilder).head()
	j.raw(tcObject).throwableDesc() // handles: 0 class, 1..3 strings, 4 object
	// The cause is another Throwable, whose cause is the first one: a cycle.
	j.raw(tcObject, tcReference).i32(baseHandle)
	j.raw(tcReference).i32(baseHandle + 4)
	j.raw(tcLongString).raw(0, 0, 0, 0, 0, 0, 0, 5).raw([]byte("inner")...)
	j.raw(tcNull, tcEndBlockData)
	j.raw(tcString).utf("outer")
	// stackTrace: an array with one element.
	j.raw(tcArray).class("[Ljava.lang.StackTraceElement;", scSerializable, 0).raw(tcEndBlockData, tcNull).i32(2)
	j.raw(tcObject).class("java.lang.StackTraceElement", scSerializable, 4)
	j.raw('I').utf("lineNumber")
	j.raw('L').utf("declaringClass").raw(tcString).utf("Ljava/lang/String;")
	j.raw('L').utf("fileName").raw(tcString).utf("x")
	j.raw('L').utf("methodName").raw(tcString).utf("y")
	j.raw(tcEndBlockData, tcNull).i32(42)
	j.raw(tcString).utf("a.B").raw(tcString).utf("B.java").raw(tcString).utf("run")
	j.raw(tcNull)
	// Custom data of the root: block data, an enum, a class, a proxy's descriptor, an array of ints.
	j.raw(tcBlockData, 3, 1, 2, 3, tcBlockDataLong).i32(2).raw(9, 9)
	j.raw(tcEnum).class("some.Enum", 0x12, 0).raw(tcEndBlockData, tcNull, tcString).utf("VALUE")
	j.raw(tcClass).class("some.Class", 0, 0).raw(tcEndBlockData, tcNull)
	j.raw(tcObject, tcProxyClassDesc).i32(1).utf("some.Interface").raw(tcEndBlockData, tcNull)
	j.raw(tcArray).class("[I", scSerializable, 0).raw(tcEndBlockData, tcNull).i32(2).i32(1).i32(2)
	j.raw(tcObject).class("some.External", scExternalizable|scBlockData, 0).raw(tcEndBlockData, tcNull, tcBlockData, 1, 7, tcEndBlockData)
	j.raw(tcEndBlockData)
	got, n, err := ParseThrowable(append(bytes.Clone(j.b), 1, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if n != len(j.b) || got.Message != "outer" || got.Stack != "at a.B.run(B.java:42)\n" || got.Cause == nil || got.Cause.Message != "inner" || got.Cause.Cause != nil {
		t.Errorf("got %+v after %d of %d", got, n, len(j.b))
	}
	if want := "java.lang.Throwable: outer; caused by java.lang.Throwable: inner"; got.Error() != want || !errors.Is(got, got.Cause) {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range j.b { // every cut is an error, none a panic
		if _, _, err := ParseThrowable(j.b[:i]); err == nil {
			t.Fatalf("cut at %d was accepted", i)
		}
	}
}

// TestParseHostile: streams made to hurt are refused with little memory.
func TestParseHostile(t *testing.T) {
	deep := new(javaBuilder).head().raw(tcObject).throwableDesc()
	for range 100_000 {
		deep.raw(tcObject, tcReference).i32(baseHandle)
	}
	supers := new(javaBuilder).head().raw(tcObject)
	for range 10_000 {
		supers.class("a", scSerializable, 0).raw(tcEndBlockData)
	}
	self := new(javaBuilder).head().raw(tcObject).class("a", scSerializable, 0).raw(tcEndBlockData, tcReference).i32(baseHandle)
	selfObject := new(javaBuilder).head().raw(tcObject).class("a", scSerializable, 1).raw('L').utf("f").raw(tcObject, tcReference).i32(baseHandle)
	array := new(javaBuilder).head().raw(tcArray).class("[Lx;", scSerializable, 0).raw(tcEndBlockData, tcNull).i32(1<<31 - 1)
	ints := new(javaBuilder).head().raw(tcArray).class("[J", scSerializable, 0).raw(tcEndBlockData, tcNull).i32(20).raw(make([]byte, 100)...)
	long := new(javaBuilder).head().raw(tcLongString, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	many := new(javaBuilder).head().raw(tcArray).class("[Lx;", scSerializable, 0).raw(tcEndBlockData, tcNull).i32(maxJavaHandles + 10)
	for range maxJavaHandles + 10 {
		many.raw(tcString, 0, 0)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	random := make([]byte, 1024)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	for _, tc := range []struct {
		name string
		in   []byte
	}{
		{"empty", nil},
		{"random", random},
		{"random after header", append([]byte{0xAC, 0xED, 0, 5, tcObject}, random...)},
		{"deep", deep.b},
		{"super classes", supers.b},
		{"own super class", self.b},
		{"object of an unfinished class", selfObject.b},
		{"array length", array.b},
		{"array of longs", ints.b},
		{"string length", long.b},
		{"many objects", many.b},
		{"null", []byte{0xAC, 0xED, 0, 5, tcNull}},
		{"string", []byte{0xAC, 0xED, 0, 5, tcString, 0, 0}},
		{"reference", []byte{0xAC, 0xED, 0, 5, tcReference, 0, 0x7E, 0, 0}},
		{"no throwable", new(javaBuilder).head().raw(tcObject).class("a", scSerializable, 0).raw(tcEndBlockData, tcNull).b},
		{"object of null", []byte{0xAC, 0xED, 0, 5, tcObject, tcNull}},
		{"array of null", []byte{0xAC, 0xED, 0, 5, tcArray, tcNull}},
		{"exception in the stream", []byte{0xAC, 0xED, 0, 5, 0x7B}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := ParseThrowable(tc.in)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errJava) {
			t.Errorf("%s: got %v", tc.name, err)
		}
		if used, limit := after.TotalAlloc-before.TotalAlloc, uint64(40*len(tc.in)+64<<10); used > limit {
			t.Errorf("%s: %d bytes were allocated for %d bytes", tc.name, used, len(tc.in))
		}
	}
}

// TestLongStack: a stack trace of any size is cut to the documented one (CRD-33, third frame).
func TestLongStack(t *testing.T) {
	j := new(javaBuilder).head().raw(tcObject)
	j.class(ClassSerialized, scSerializable, 1)
	j.raw('L').utf("fullStringifiedStackTrace").raw(tcString).utf("Ljava/lang/String;").raw(tcEndBlockData).throwableDesc()
	j.raw(tcNull, tcString).utf("java.io.IOException: boom").raw(tcNull, tcEndBlockData)
	long := strings.Repeat("at a.b.C.d(C.java:1)\n", 10_000)
	j.raw(tcLongString, 0, 0, 0, 0, 0).raw(byte(len(long)>>16), byte(len(long)>>8), byte(len(long))).raw([]byte(long)...)
	got, n, err := ParseThrowable(j.b)
	if err != nil || n != len(j.b) {
		t.Fatalf("%d of %d, %v", n, len(j.b), err)
	}
	if len(got.Stack) > maxJavaStack+3 || !strings.HasPrefix(got.Stack, "at a.b.C.d(C.java:1)\nat a.b.C") || got.Message != "java.io.IOException: boom" {
		t.Errorf("%d bytes of stack trace, message %q", len(got.Stack), got.Message)
	}
}
