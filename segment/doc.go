// Package segment holds the memory of a data plane: a fixed budget of equal blocks outside the Go heap, handed round by
// counted handles.
package segment
