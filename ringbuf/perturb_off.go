//go:build !race && !weirdebug

package ringbuf

// perturb does nothing in this build. In race and debug builds tests can make it yield between the steps of an operation.
func perturb() {}
