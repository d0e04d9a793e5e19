package weir

import "context"

// WriteBatch is WriteTo for several records in a row, which costs less for each of them than a call. It returns how many were written:
// all of them if there is no error. The values are free again when it returns. After an error the others were not written at all, unless
// errors.Is(err, ErrHalfWritten): then the one at n was begun, and the output can only be closed.
func (o *Output) WriteBatch(ctx context.Context, sub int, values [][]byte) (n int, err error) {
	for n < len(values) {
		if o.attention.Load() == 0 {
			if n += o.w.TryWriteBatch(sub, values[n:]); n == len(values) {
				break
			}
		}
		if err := o.writeSlow(ctx, sub, values[n]); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
