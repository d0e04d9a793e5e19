package checkpoint

import "fmt"

// inEpoch tells whether a process is in the epoch that it says.
func (c *core) inEpoch(msg *message) error {
	m := c.find(msg.Member)
	switch {
	case m == nil || m.nonce != msg.Nonce:
		return fmt.Errorf("member %s: %w", msg.Member, ErrReplaced)
	case msg.Epoch != c.record.Epoch || m.standing != running && m.standing != away:
		return fmt.Errorf("member %s: epoch %d is over: %w", msg.Member, msg.Epoch, ErrFenced)
	}
	return nil
}

// mayPut tells whether a process may put a part into a checkpoint.
func (c *core) mayPut(msg *message) error {
	if err := c.inEpoch(msg); err != nil {
		return err
	}
	p := c.flight(msg.ID)
	if p == nil {
		return fmt.Errorf("checkpoint %d is not in flight", msg.ID)
	}
	if _, acked := p.acks[msg.Member]; acked {
		return fmt.Errorf("checkpoint %d is acknowledged by member %s already", msg.ID, msg.Member)
	}
	return nil
}

// mayGet tells whether a process may get a part of a checkpoint: of the one that the epoch began with, or of the last one.
func (c *core) mayGet(msg *message) error {
	if err := c.inEpoch(msg); err != nil {
		return err
	}
	if msg.ID == 0 || msg.ID != c.record.Restored && (c.restored == nil || msg.ID != c.restored.ID) {
		return fmt.Errorf("checkpoint %d is not the restored one", msg.ID)
	}
	return nil
}
