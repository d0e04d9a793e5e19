//go:build !race && !weirdebug

package netio

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/internal/testcert"
)

// What a steady TLS connection may allocate, at both ends together, for a megabyte of data. The driver itself allocates nothing;
// crypto/tls makes a small object each time it reads what is not a record in whole. On the loop that is about every other record.
const tlsBytesPerMiB = 16 << 10

func TestAllocTLS(t *testing.T) {
	tlsObjectsPerMiB := uint64(160)
	if tlsNative && !buildtag.NoUnsafe { // system calls through package unix make some
		tlsObjectsPerMiB = 80
	}
	cfg := testcert.New(t, "authority").TLS(t, "node")
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg.Clone()
			cfg.MinVersion, cfg.MaxVersion = version, version
			const round = 1 << 20
			a, b := newLoop(t, LoopConfig{}), newLoop(t, LoopConfig{})
			got, arrived := 0, make(chan struct{}, 1)
			addr := listenTLS(t, b, TLS{Config: cfg}, func(*Conn) Handler {
				return &funcs{read: func(_ *Conn, p []byte) error {
					if got += len(p); got >= round {
						got -= round
						arrived <- struct{}{}
					}
					return nil
				}}
			})
			left := 0
			c, err := a.DialTLS(t.Context(), "tcp", addr.String(), TLS{Config: cfg}, &funcs{flush: func(c *Conn) {
				for ; left > 0 && !c.Full(); left -= 1 << 13 {
					c.Stage(1 << 13)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			more := func() { left += round; c.WantFlush() }
			const n = 50
			late := time.NewTimer(hang)
			defer late.Stop()
			alloctest.AtMost(t, 10, n, n*tlsObjectsPerMiB, n*tlsBytesPerMiB, func() {
				a.Post(more)
				select {
				case <-arrived:
				case <-late.C:
					t.Fatal("nothing arrives")
				}
			})
		})
	}
}
