package ringbuf

import "reflect"

// line is the distance kept between words that different goroutines write: two cache lines, since x86 prefetches the
// adjacent line and some arm64 cores have lines of 128 bytes.
const line = 128

// maxCapacity bounds rings so that positions, laps and slice lengths fit on 32-bit platforms too.
const maxCapacity = 1 << 28

// roundUp returns the smallest power of two that is at least capacity and at least least.
func roundUp(kind string, capacity, least int) int {
	if capacity > maxCapacity {
		panic("ringbuf: " + kind + ": capacity above 1<<28")
	}
	n := least
	for n < capacity {
		n <<= 1
	}
	return n
}

// holdsPointers tells whether a value of type T can keep another object alive. A ring clears the slots that it hands on
// only for such types: the store would otherwise cost a transfer of the cache line for nothing.
func holdsPointers[T any]() bool { return typeHoldsPointers(reflect.TypeFor[T]()) }

func typeHoldsPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr, reflect.Float32, reflect.Float64,
		reflect.Complex64, reflect.Complex128:
		return false
	case reflect.Array:
		return t.Len() > 0 && typeHoldsPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if typeHoldsPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	default:
		return true
	}
}
