//go:build unix && !darwin

package measure

const maxrssUnit = 1 << 10
