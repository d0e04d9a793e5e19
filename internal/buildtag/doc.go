// Package buildtag turns each build tag into a constant.
//
// Code asks `if buildtag.Debug { … }` and the compiler deletes what is not wanted, so that tags appear in this package
// alone and not in every file that reacts to one. Twin files are still the right form where the two builds need different
// types or imports.
//
//	Race      go test -race
//	Debug     -tags weirdebug     mechanisms that find misuse
//	NoUnsafe  -tags nounsafe      safe twins of the files named *_unsafe*.go
//	Portable  -tags weirportable  netio's driver on package net
//
// Invariant: every constant has exactly one `_on` and one `_off` file.
package buildtag
