// Package javatext moves text between Go strings and the encodings that Java programs write.
//
// A Java string is a sequence of UTF-16 code units, and nothing keeps it from holding half of a surrogate pair. Its one
// idea is to keep such a string in a Go string as WTF-8: UTF-8 in which an unpaired surrogate takes the three bytes that
// its number would have. Every sequence of code units has exactly one such form, so what was decoded encodes to the same
// bytes again. Text without unpaired surrogates is plain UTF-8.
package javatext
