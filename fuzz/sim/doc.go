// Package sim runs whole jobs on a simulated network, deterministically.
package sim
