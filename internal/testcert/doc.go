// Package testcert makes certificates for tests of TLS, in memory and anew in each run.
//
// Invariant: nothing it makes outlives the test or is trusted by anything else.
package testcert
