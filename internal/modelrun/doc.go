// Package modelrun is the frame of tests that depend on chance: model tests, how many steps they take and what they must have met on
// the way, and tests whose exposure the scheduler decides. Its one idea is that a random walk proves nothing about what it never came
// to, so each walk counts, prints its counts, and fails when one of those that matter is nil; and what merely was not met in one
// round may be met in the next, while what is wrong fails at once.
package modelrun
