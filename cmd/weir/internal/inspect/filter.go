package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// Filter passes some of the frames. The zero value passes all. Accounts are kept of the others, too.
type Filter struct {
	// Channel is how the hexadecimal id of a channel begins, or begins and ends: "4a0f..0001".
	Channel string
	// Kinds are names of messages, data types or events, or "data" or "event"; none means all. Case does not count.
	Kinds []string
}

// Check refuses what no frame can pass.
func (f *Filter) Check() error {
	if digits := strings.Replace(f.Channel, "..", "", 1); len(digits) > 32 || strings.Trim(strings.ToLower(digits), "0123456789abcdef") != "" {
		return fmt.Errorf("channel %q: want the first of 32 hexadecimal digits, or FIRST..LAST", f.Channel)
	}
	for _, k := range f.Kinds {
		if !slices.ContainsFunc(kinds(), func(name string) bool { return strings.EqualFold(name, k) }) {
			return fmt.Errorf("kind %q: want one of %s", k, strings.Join(kinds(), ", "))
		}
	}
	return nil
}

// kinds are all names of kinds.
func kinds() []string {
	names := []string{"data", "event"}
	for m := range credit.MsgSegmentID + 1 {
		names = append(names, m.String())
	}
	for t := segment.DataBuffer; t.Valid(); t++ {
		names = append(names, t.String())
	}
	for k := range event.EndOfInputChannelState + 1 {
		names = append(names, k.String())
	}
	return names
}

// channel reports whether frames of the channel pass.
func (f *Filter) channel(id credit.ChannelID) bool {
	first, last, _ := strings.Cut(strings.ToLower(f.Channel), "..")
	return first+last == "" || strings.HasPrefix(id.String(), first) && strings.HasSuffix(id.String(), last)
}

// frame reports whether a frame passes.
func (f *Filter) frame(fr *Frame) bool {
	if !f.channel(fr.Channel) {
		return false
	}
	return len(f.Kinds) == 0 || slices.ContainsFunc(f.Kinds, func(k string) bool {
		switch {
		case strings.EqualFold(k, fr.Message.String()):
			return true
		case fr.Event != nil && strings.EqualFold(k, fr.Event.Kind.String()):
			return true
		case fr.Buffer == nil:
			return false
		}
		return strings.EqualFold(k, fr.Buffer.Type.String()) || strings.EqualFold(k, "data") && fr.IsData() || strings.EqualFold(k, "event") && !fr.IsData()
	})
}
