// Package align decides when a task takes a checkpoint.
package align
