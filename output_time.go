package weir

import (
	"context"
	"errors"

	"github.com/weirflow/weir/serde"
)

// WriteToAt is WriteTo for a record with a timestamp, in milliseconds: Element.HasTimestamp and Timestamp at the other end. (Flink:
// a StreamRecord with timestamp)
func (o *Output) WriteToAt(ctx context.Context, sub int, timestamp int64, value []byte) error {
	if o.attention.Load() == 0 {
		switch err := o.w.WriteBytesAt(sub, timestamp, value); {
		case err == nil:
			return nil
		case !errors.Is(err, serde.ErrFull):
			return o.finishWrite(ctx, err)
		}
	}
	return o.writeSlowAt(ctx, sub, timestamp, value)
}

func (o *Output) writeSlowAt(ctx context.Context, sub int, timestamp int64, value []byte) error {
	return o.retry(ctx, func() error { return o.w.WriteBytesAt(sub, timestamp, value) })
}
