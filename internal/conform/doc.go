// Package conform runs golden data against the library: vectors, which are bytes that Flink made with the values they
// stand for, and traces, which are what Flink's classes did, step by step.
//
// Its one idea: a checker drives the very types that the sockets drive, on one thread, and knows nothing of what is
// expected; comparing is common code. So a rule broken in the library turns a line red here. What a line checks is
// decided by its content, never by the name of its file. A family that has no checker fails.
//
// To add a family, write its checker in a file of its own and enter it in the tables of families.go.
package conform
