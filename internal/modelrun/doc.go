// Package modelrun is the frame of model tests: how many steps they take, and what they must have met on the way. Its one
// idea is that a random walk proves nothing about what it never came to, so each walk counts, prints its counts, and fails
// when one of those that matter is nil.
package modelrun
