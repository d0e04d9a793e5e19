package credit

import (
	"errors"
	"fmt"
	"strings"
)

// Names of the Java classes that a server reports errors with (wire.md lists what stock clients can load).
const (
	ClassThrowable         = "java.lang.Throwable"
	ClassIOException       = "java.io.IOException"
	ClassIllegalArgument   = "java.lang.IllegalArgumentException"
	ClassIllegalState      = "java.lang.IllegalStateException"
	ClassPartitionNotFound = "org.apache.flink.runtime.io.network.partition.PartitionNotFoundException"
	ClassProducerFailed    = "org.apache.flink.runtime.io.network.partition.ProducerFailedException"
	ClassCancelTask        = "org.apache.flink.runtime.execution.CancelTaskException"
	ClassRemoteTransport   = "org.apache.flink.runtime.io.network.netty.exception.RemoteTransportException"
	ClassLocalTransport    = "org.apache.flink.runtime.io.network.netty.exception.LocalTransportException"
	ClassSerialized        = "org.apache.flink.util.SerializedThrowable"
)

// Throwable is a Java exception that came from, or goes to, the other end. It is an error: errors.Is finds
// ErrPartitionNotFound and ErrProducerFailed by its class, errors.As and Unwrap walk the causes.
type Throwable struct {
	// Class is the full name of the Java class.
	Class string
	// Supers are the names of its super classes, nearest first, as far as they are serializable.
	Supers []string
	// Message is the detail message; HasMessage false: null.
	Message    string
	HasMessage bool
	// Cause is what caused it, nil if nothing or not known.
	Cause *Throwable
	// Stack is the stack trace as text, one "at class.method(file:line)" a line; for a SerializedThrowable the text that
	// it carries. Empty if there is none.
	Stack string
}

// Error returns "class: message", and the causes' after "; caused by ".
func (t *Throwable) Error() string {
	var b strings.Builder
	for c, n := t, 0; c != nil && n < maxCauses; c, n = c.Cause, n+1 {
		if n > 0 {
			b.WriteString("; caused by ")
		}
		b.WriteString(c.Class)
		if c.HasMessage {
			b.WriteString(": ")
			b.WriteString(c.Message)
		}
	}
	return b.String()
}

// Unwrap returns the cause.
func (t *Throwable) Unwrap() error {
	if t.Cause == nil {
		return nil
	}
	return t.Cause
}

// Is maps classes to sentinels. PartitionNotFoundException must be that very class, as in Flink, whose client
// compares getClass(); a ProducerFailedException may be of a subclass.
func (t *Throwable) Is(target error) bool {
	switch target {
	case ErrPartitionNotFound:
		return t.Class == ClassPartitionNotFound
	case ErrProducerFailed:
		return t.InstanceOf(ClassProducerFailed)
	}
	return false
}

// InstanceOf reports whether the exception is of the class or of one below it.
func (t *Throwable) InstanceOf(class string) bool {
	if t.Class == class {
		return true
	}
	for _, s := range t.Supers {
		if s == class {
			return true
		}
	}
	return false
}

// ErrorResponse is an error that a server reports.
type ErrorResponse struct {
	// Cause is the exception.
	Cause *Throwable
	// Fatal: it concerns the connection, and Receiver is zero. Else it concerns the channel Receiver.
	Fatal    bool
	Receiver ChannelID
	// StreamLen is how many bytes the Java object took.
	StreamLen int
}

// errorClass describes one class of the templates: the chain up to Throwable is written in full, because Java matches
// classes by name and serialVersionUID and tolerates missing fields, so that none needs to be declared.
type errorClass struct {
	uid   uint64
	super string
}

var errorClasses = map[string]errorClass{
	"java.lang.Exception":        {0xD0FD1F3E1A3B1CC4, ClassThrowable},
	"java.lang.RuntimeException": {0x9E5F06470A3483E5, "java.lang.Exception"},
	ClassIOException:             {0x6C8073646525F0AB, "java.lang.Exception"},
	ClassIllegalArgument:         {0xB58973D37D668FBC, "java.lang.RuntimeException"},
	ClassIllegalState:            {0xE65755E69A46F248, "java.lang.RuntimeException"},
	"org.apache.flink.runtime.io.network.partition.PartitionException": {0, ClassIOException},
	ClassPartitionNotFound: {0, "org.apache.flink.runtime.io.network.partition.PartitionException"},
	"org.apache.flink.runtime.io.network.partition.consumer.PartitionConnectionException": {0, "org.apache.flink.runtime.io.network.partition.PartitionException"},
	ClassCancelTask:     {1, "java.lang.RuntimeException"},
	ClassProducerFailed: {0xEA69C7ABA289B705, ClassCancelTask},
	ClassSerialized:     {0x65169DF51FA713F3, "java.lang.Exception"},
	"org.apache.flink.runtime.io.network.netty.exception.TransportException": {0x327C22ABDF50864A, ClassIOException},
	ClassRemoteTransport: {0x3CB23426D6B704E1, "org.apache.flink.runtime.io.network.netty.exception.TransportException"},
	ClassLocalTransport:  {0x20D83D302BF8B8A2, "org.apache.flink.runtime.io.network.netty.exception.TransportException"},
}

const throwableUID = 0xD5C635273977B8CB

// maxErrorMessage limits the message of an error that we send; a Java "utf" holds 65535 bytes.
const maxErrorMessage = 16 << 10

// AppendThrowable appends the smallest Java object stream that a stock Flink client reads as an exception of the class
// with the message: no stack trace, no cause. A class that is not in the list of loadable ones becomes an IOException
// whose message begins with its name, since a class that the client cannot load would cost it the whole connection.
func AppendThrowable(dst []byte, class, message string) []byte {
	if _, ok := errorClasses[class]; !ok {
		message = class + ": " + message
		class = ClassIOException
	}
	dst = append(dst, 0xAC, 0xED, 0, 5, tcObject)
	for class != ClassThrowable {
		c := errorClasses[class]
		dst = append(dst, tcClassDesc)
		dst = appendUTF(dst, class)
		dst = appendU64(dst, c.uid)
		dst = append(dst, scSerializable, 0, 0, tcEndBlockData)
		class = c.super
	}
	dst = append(dst, tcClassDesc)
	dst = appendUTF(dst, ClassThrowable)
	dst = appendU64(dst, throwableUID)
	dst = append(dst, scSerializable|scWriteMethod, 0, 1, 'L')
	dst = appendUTF(dst, "detailMessage")
	dst = append(dst, tcString)
	dst = appendUTF(dst, "Ljava/lang/String;")
	dst = append(dst, tcEndBlockData, tcNull, tcString)
	dst = appendUTF(dst, cutMessage(message))
	return append(dst, tcEndBlockData)
}

// classOf picks the Java class that tells a client what err means.
func classOf(err error) string {
	var t *Throwable
	switch {
	case errors.As(err, &t) && errorClasses[t.Class] != (errorClass{}):
		return t.Class
	case errors.Is(err, ErrPartitionNotFound):
		return ClassPartitionNotFound
	case errors.Is(err, ErrProducerFailed):
		return ClassProducerFailed
	}
	return ClassIOException
}

// AppendError appends an ErrorResponse frame for err: PartitionNotFoundException and ProducerFailedException for the
// sentinels, the class of a *Throwable that err wraps, else an IOException.
func AppendError(dst []byte, err error, receiver ChannelID, fatal bool) []byte {
	message := err.Error()
	var t *Throwable
	if errors.As(err, &t) && t == err {
		message = t.Message
	}
	return AppendErrorResponse(dst, AppendThrowable(nil, classOf(err), message), receiver, fatal)
}

// ParseErrorResponse parses the body of an ErrorResponse. It never trusts a length in it: all it allocates is bounded by
// len(body), and depth and number of objects are limited.
func ParseErrorResponse(body []byte) (*ErrorResponse, error) {
	t, n, err := ParseThrowable(body)
	if err != nil {
		return nil, err
	}
	e := &ErrorResponse{Cause: t, StreamLen: n}
	rest := body[n:]
	switch {
	case len(rest) == 1 && rest[0] == 0:
		e.Fatal = true
	case len(rest) == 17 && rest[0] != 0:
		e.Receiver = channelAt(rest[1:])
	default:
		return nil, fmt.Errorf("%d bytes after the exception", len(rest))
	}
	return e, nil
}
