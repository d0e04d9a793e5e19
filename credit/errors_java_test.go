package credit

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
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

// TestParseOddThrowables parses what Java 17 wrote: exceptions that have no stack trace at all, whose cause is a field of their own, or
// that write their data themselves without the fields that their class has.
func TestParseOddThrowables(t *testing.T) {
	for _, tc := range []struct{ name, class, message, cause, stream string }{
		{"without a stack trace", "Small$Stackless", "no stack", "", "aced00057372000f536d616c6c24537461636b6c657373ad437bcaf53fe535020000787200136a6176612e6c616e672e457863657074696f6ed0fd1f3e1a3b1cc40200007872" +
			"00136a6176612e6c616e672e5468726f7761626c65d5c635273977b8cb0300044c000563617573657400154c6a6176612f6c616e672f5468726f7761626c653b4c000d646574" +
			"61696c4d6573736167657400124c6a6176612f6c616e672f537472696e673b5b000a737461636b547261636574001e5b4c6a6176612f6c616e672f537461636b547261636545" +
			"6c656d656e743b4c001473757070726573736564457863657074696f6e737400104c6a6176612f7574696c2f4c6973743b7870707400086e6f20737461636b7572001e5b4c6a" +
			"6176612e6c616e672e537461636b5472616365456c656d656e743b02462a3c3cfd22390200007870000000017372001b6a6176612e6c616e672e537461636b5472616365456c" +
			"656d656e746109c59a2636dd85020008420006666f726d617449000a6c696e654e756d6265724c000f636c6173734c6f616465724e616d6571007e00044c000e6465636c6172" +
			"696e67436c61737371007e00044c000866696c654e616d6571007e00044c000a6d6574686f644e616d6571007e00044c000a6d6f64756c654e616d6571007e00044c000d6d6f" +
			"64756c6556657273696f6e71007e000478700080000000707400007071007e000d70707078"},
		{"InvocationTargetException", "java.lang.reflect.InvocationTargetException", "msg", "target", "aced00057372002b6a6176612e6c616e672e7265666c6563742e496e766f636174696f6e546172676574457863657074696f6e38b1268ed671246f0200014c00067461726765" +
			"747400154c6a6176612f6c616e672f5468726f7761626c653b787200266a6176612e6c616e672e5265666c6563746976654f7065726174696f6e457863657074696f6e000000" +
			"00075bcd15020000787200136a6176612e6c616e672e457863657074696f6ed0fd1f3e1a3b1cc4020000787200136a6176612e6c616e672e5468726f7761626c65d5c6352739" +
			"77b8cb0300044c0005636175736571007e00014c000d64657461696c4d6573736167657400124c6a6176612f6c616e672f537472696e673b5b000a737461636b547261636574" +
			"001e5b4c6a6176612f6c616e672f537461636b5472616365456c656d656e743b4c001473757070726573736564457863657074696f6e737400104c6a6176612f7574696c2f4c" +
			"6973743b7870707400036d73677572001e5b4c6a6176612e6c616e672e537461636b5472616365456c656d656e743b02462a3c3cfd22390200007870000000007372001f6a61" +
			"76612e7574696c2e436f6c6c656374696f6e7324456d7074794c6973747ab817b43ca79ede020000787078737200136a6176612e696f2e494f457863657074696f6e6c807364" +
			"6525f0ab0200007871007e000371007e000f7400067461726765747571007e000a0000000071007e000d78"},
		{"UndeclaredThrowableException", "java.lang.reflect.UndeclaredThrowableException", "msg", "inside", "aced00057372002e6a6176612e6c616e672e7265666c6563742e556e6465636c617265645468726f7761626c65457863657074696f6e0494d8dc73f9fcff0300014c0013756e" +
			"6465636c617265645468726f7761626c657400154c6a6176612f6c616e672f5468726f7761626c653b7872001a6a6176612e6c616e672e52756e74696d65457863657074696f" +
			"6e9e5f06470a3483e5020000787200136a6176612e6c616e672e457863657074696f6ed0fd1f3e1a3b1cc4020000787200136a6176612e6c616e672e5468726f7761626c65d5" +
			"c635273977b8cb0300044c0005636175736571007e00014c000d64657461696c4d6573736167657400124c6a6176612f6c616e672f537472696e673b5b000a737461636b5472" +
			"61636574001e5b4c6a6176612f6c616e672f537461636b5472616365456c656d656e743b4c001473757070726573736564457863657074696f6e737400104c6a6176612f7574" +
			"696c2f4c6973743b7870737200136a6176612e696f2e494f457863657074696f6e6c8073646525f0ab0200007871007e000371007e000a740006696e736964657572001e5b4c" +
			"6a6176612e6c616e672e537461636b5472616365456c656d656e743b02462a3c3cfd22390200007870000000007372001f6a6176612e7574696c2e436f6c6c656374696f6e73" +
			"24456d7074794c6973747ab817b43ca79ede0200007870787400036d73677571007e000c0000000071007e000f7871007e000a78"},
		{"fields not written", "Small$Own", "own form", "", "aced000573720009536d616c6c244f776eb329ebe2478a45c00300014c0001617400124c6a6176612f6c616e672f4f626a6563743b7872001a6a6176612e6c616e672e52756e" +
			"74696d65457863657074696f6e9e5f06470a3483e5020000787200136a6176612e6c616e672e457863657074696f6ed0fd1f3e1a3b1cc4020000787200136a6176612e6c616e" +
			"672e5468726f7761626c65d5c635273977b8cb0300044c000563617573657400154c6a6176612f6c616e672f5468726f7761626c653b4c000d64657461696c4d657373616765" +
			"7400124c6a6176612f6c616e672f537472696e673b5b000a737461636b547261636574001e5b4c6a6176612f6c616e672f537461636b5472616365456c656d656e743b4c0014" +
			"73757070726573736564457863657074696f6e737400104c6a6176612f7574696c2f4c6973743b7870707400086f776e20666f726d7572001e5b4c6a6176612e6c616e672e53" +
			"7461636b5472616365456c656d656e743b02462a3c3cfd22390200007870000000017372001b6a6176612e6c616e672e537461636b5472616365456c656d656e746109c59a26" +
			"36dd85020008420006666f726d617449000a6c696e654e756d6265724c000f636c6173734c6f616465724e616d6571007e00064c000e6465636c6172696e67436c6173737100" +
			"7e00064c000866696c654e616d6571007e00064c000a6d6574686f644e616d6571007e00064c000a6d6f64756c654e616d6571007e00064c000d6d6f64756c6556657273696f" +
			"6e71007e000678700080000000707400007071007e000f70707372001f6a6176612e7574696c2e436f6c6c656374696f6e7324456d7074794c6973747ab817b43ca79ede0200" +
			"0078707877080000000000000009740005657874726178"},
		{"nothing written", "Small$Nothing", "nothing", "", "aced00057372000d536d616c6c244e6f7468696e671469d26be2a5bb5c0300014c0001617400124c6a6176612f6c616e672f4f626a6563743b7872001a6a6176612e6c616e67" +
			"2e52756e74696d65457863657074696f6e9e5f06470a3483e5020000787200136a6176612e6c616e672e457863657074696f6ed0fd1f3e1a3b1cc4020000787200136a617661" +
			"2e6c616e672e5468726f7761626c65d5c635273977b8cb0300044c000563617573657400154c6a6176612f6c616e672f5468726f7761626c653b4c000d64657461696c4d6573" +
			"736167657400124c6a6176612f6c616e672f537472696e673b5b000a737461636b547261636574001e5b4c6a6176612f6c616e672f537461636b5472616365456c656d656e74" +
			"3b4c001473757070726573736564457863657074696f6e737400104c6a6176612f7574696c2f4c6973743b7870707400076e6f7468696e677572001e5b4c6a6176612e6c616e" +
			"672e537461636b5472616365456c656d656e743b02462a3c3cfd22390200007870000000017372001b6a6176612e6c616e672e537461636b5472616365456c656d656e746109" +
			"c59a2636dd85020008420006666f726d617449000a6c696e654e756d6265724c000f636c6173734c6f616465724e616d6571007e00064c000e6465636c6172696e67436c6173" +
			"7371007e00064c000866696c654e616d6571007e00064c000a6d6574686f644e616d6571007e00064c000a6d6f64756c654e616d6571007e00064c000d6d6f64756c65566572" +
			"73696f6e71007e000678700080000000707400007071007e000f70707372001f6a6176612e7574696c2e436f6c6c656374696f6e7324456d7074794c6973747ab817b43ca79e" +
			"de02000078707878"},
	} {
		b, err := hex.DecodeString(tc.stream)
		if err != nil {
			t.Fatal(err)
		}
		got, n, err := ParseThrowable(append(bytes.Clone(b), 0))
		if err != nil || n != len(b) {
			t.Errorf("%s: %d of %d bytes, %v", tc.name, n, len(b), err)
			continue
		}
		cause := ""
		if got.Cause != nil {
			cause = got.Cause.Message
		}
		if got.Class != tc.class || got.Message != tc.message || cause != tc.cause || got.Stack != "" {
			t.Errorf("%s: %+v with cause %q", tc.name, got, cause)
		}
	}
}
