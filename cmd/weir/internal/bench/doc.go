// Package bench measures weir as its users see it: two processes over loopback, through the exported API, with default options.
//
// The one idea: nothing here is faster than what the library gives everybody. Invariant: a figure whose work does not add up (frames
// times payload against bytes summed, records against the sum of their fields), or that no credit was sent for, is an
// error and not a figure.
package bench
