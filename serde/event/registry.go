package event

import (
	"errors"
	"fmt"
)

// ErrUnknownClass is wrapped when a Generic event's class has no codec in a registry.
var ErrUnknownClass = errors.New("could not load event class")

// Registry makes values of Generic events, by the name of their class. It takes the place of Java's class loader. The
// zero value knows no class. It must not be changed while other goroutines load from it.
type Registry struct {
	codecs map[string]func(payload []byte) (any, error)
}

// Register enters the codec of a class, in place of an older one. The codec gets the payload, followed by zero bytes if
// the event was padded, and must not keep it.
func (r *Registry) Register(class string, decode func(payload []byte) (any, error)) {
	if r.codecs == nil {
		r.codecs = map[string]func([]byte) (any, error){}
	}
	r.codecs[class] = decode
}

// Load decodes the payload of a Generic event. Errors: ErrUnknownClass; ErrInvalid for an event of another kind; what the
// codec returns, as ErrCorrupt.
func (r *Registry) Load(e *Event) (any, error) {
	if e.Kind != Generic {
		return nil, fmt.Errorf("%w: %v has no class", ErrInvalid, e.Kind)
	}
	decode := r.codecs[e.Class]
	if decode == nil {
		return nil, fmt.Errorf("%w %q", ErrUnknownClass, e.Class)
	}
	v, err := decode(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("%w: event class %q: %w", ErrCorrupt, e.Class, err)
	}
	return v, nil
}
