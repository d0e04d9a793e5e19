// Package framing cuts an input into records and finds the key of a record.
//
// The one idea: a record keeps every byte that belongs to it, its line end or its length prefix too, so that the records
// of an input, one after the other, are the input again, byte for byte.
package framing
