package credit

// ChannelError wraps an error that the task met in what channel ch brought: it names the sender, the partition and the channel.
func (g *Gate) ChannelError(ch int, err error) *ChannelError {
	e := g.chans[ch].info
	e.Err = err
	return &e
}
