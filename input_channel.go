package weir

import "github.com/weirflow/weir/credit"

// inputChannel is the loop's half of a channel of an input: to a sender elsewhere, or to an output of the same node.
type inputChannel struct {
	remote *credit.RemoteChannel
	local  *credit.LocalChannel // instead
}

// mostRoomy is for how many local channels there is room for a whole window on the way to an input. What finds none waits at the loop.
const mostRoomy = 16

// openChannel makes the next channel, which nobody is asked for yet. On the loop.
func (in *Input) openChannel(addr string, id PartitionID, subs credit.SubpartitionRange) error {
	index := len(in.chans)
	if addr == Local {
		ch, err := in.port.NewLocalChannel(credit.LocalConfig{Index: index, Partition: id, Range: subs, Again: in.node.loop.Kick})
		if err != nil {
			return err
		}
		in.gate.Describe(index, "", id, credit.ChannelID{})
		in.chans = append(in.chans, inputChannel{local: ch})
		return nil
	}
	ch, err := in.port.NewChannel(credit.RemoteConfig{Index: index, Partition: id, Range: subs, Exclusive: in.cfg.Exclusive})
	if err != nil {
		return err
	}
	in.gate.Describe(index, addr, id, ch.ID())
	in.chans = append(in.chans, inputChannel{remote: ch})
	return nil
}

// request asks the senders for the channels. What was in flight has been handed out: nothing new may come before it.
func (in *Input) request() {
	in.node.loop.Post(func() {
		if in.closed.Load() {
			return
		}
		for i, ch := range in.chans {
			if ch.remote != nil {
				in.node.client.Open("tcp", in.cfg.Sources[in.sources[i]].Addr, ch.remote, in.cfg.Wait)
				continue
			}
			in.node.registry.OpenLocal(ch.local)
		}
		if in.cfg.locals() > 0 {
			in.patient = in.node.loop.After(in.cfg.Wait, in.giveUp)
		}
	})
}

// giveUp ends the local channels whose partitions are not there by now. On the loop.
func (in *Input) giveUp() {
	for _, ch := range in.chans {
		if ch.local != nil {
			ch.local.GiveUp()
		}
	}
}

// stats is the channel's state. On the loop.
func (c inputChannel) stats() ChannelStats {
	if c.local != nil {
		return ChannelStats{Unread: c.local.Unread(), Err: c.local.Err()}
	}
	return ChannelStats{Credit: c.remote.Outstanding(), Unread: c.remote.Unread(), Err: c.remote.Err()}
}
