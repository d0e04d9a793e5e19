package segment

// Charged is the number of segments that are handed out and charged to subpartition sub.
func (l *LocalPool) Charged(sub int) int {
	if uint(sub) >= uint(len(l.counts)) {
		return 0
	}
	return int(l.counts[sub])
}
