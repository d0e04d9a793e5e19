//go:build !weirportable

package buildtag

// Portable tells whether netio runs on package net (-tags weirportable).
const Portable = false
