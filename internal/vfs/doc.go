// Package vfs is the few operations on files that durable state is made of, behind an interface, so that tests can let each of
// them fail, or crash the machine behind it.
//
// OS is the real thing. Hooked calls a function before and after each step, which may kill the process or make the step fail. Mem
// keeps files in memory and knows what would survive a crash: a file's bytes up to its last Sync, and the entries of a directory up
// to its last SyncDir, as far as POSIX promises it.
//
// Invariant: what was not synced may be lost, kept or torn by Mem.Crash; what was synced is kept.
package vfs
