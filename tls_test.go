package weir

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/testcert"
	"github.com/weirflow/weir/netio"
)

// journal is what a node logs.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// await waits until the node has logged all of what.
func (j *journal) await(t *testing.T, what ...string) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		j.mu.Lock()
		text := j.text.String()
		j.mu.Unlock()
		missing := ""
		for _, w := range what {
			if !strings.Contains(text, w) {
				missing = w
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the log says nothing of %q:\n%s", missing, text)
		}
	}
}

// pinned pins a certificate's own fingerprint and those of others.
func pinned(t *testing.T, own tls.Certificate, others ...*x509.Certificate) *tls.Config {
	t.Helper()
	var pins []string
	for _, c := range others {
		pins = append(pins, Fingerprint(c))
	}
	cfg, err := PinnedTLS(own, pins...)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// tlsExchange moves records with barriers from a node to another one, and checks them.
func tlsExchange(t *testing.T, send, receive *tls.Config) {
	t.Helper()
	ctx := limited(t)
	const records, every, channels = 6000, 500, 2
	a, b := open(t, Config{Listen: "127.0.0.1:0", TLS: send}), open(t, Config{TLS: receive})
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: channels, Partition: RoundRobin})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	wait := inBackground(t, func() error {
		for i := range records {
			rec := bytes.Repeat([]byte{byte(i)}, 8+i*37%3000)
			if i == 100 {
				rec = bytes.Repeat([]byte{byte(i)}, 300_000) // spans buffers
			}
			binary.BigEndian.PutUint64(rec, uint64(i))
			if err := out.Write(ctx, nil, rec); err != nil {
				return err
			}
			if i%every == every-1 {
				if err := out.Barrier(AlignedBarrier(int64(i/every+1), time.Now())); err != nil {
					return err
				}
			}
		}
		return out.Finish(ctx)
	})
	seen, checkpoints := 0, 0
	next := [channels]int{0, 1}
	for e, err := range in.All(ctx) {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Kind == Record:
			i := int(binary.BigEndian.Uint64(e.Value))
			if i != next[e.Channel] || e.Value[len(e.Value)-1] != byte(i) {
				t.Fatalf("channel %d: record %d ending in %d, want %d", e.Channel, i, e.Value[len(e.Value)-1], next[e.Channel])
			}
			next[e.Channel] += channels
			seen++
		case e.Kind == Checkpoint:
			checkpoints++
			if want := every * int(e.Checkpoint.Barrier.ID); seen != want {
				t.Errorf("checkpoint %d after %d records, want %d", e.Checkpoint.Barrier.ID, seen, want)
			}
			e.Checkpoint.Ack()
		}
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	if seen != records || checkpoints != records/every {
		t.Errorf("%d records, %d checkpoints", seen, checkpoints)
	}
}

func TestTLSVersions(t *testing.T) {
	ca := testcert.New(t, "authority")
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			s, c := ca.TLS(t, "sender"), ca.TLS(t, "receiver")
			s.MaxVersion, c.MinVersion, c.MaxVersion = version, version, version
			tlsExchange(t, s, c)
		})
	}
}

// A configuration with one pool and no word of clients is mutual all the same.
func TestTLSOnePoolIsForBoth(t *testing.T) {
	ca := testcert.New(t, "authority")
	s, c := ca.TLS(t, "sender"), ca.TLS(t, "receiver")
	s.ClientCAs, s.ClientAuth, c.ClientCAs, c.RootCAs = nil, 0, c.RootCAs, nil
	tlsExchange(t, s, c)
}

// Pinned certificates need no authority, no names and no validity.
func TestTLSPinned(t *testing.T) {
	useless := func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses, c.ExtKeyUsage = nil, nil, nil
		c.NotAfter = time.Now().Add(-time.Hour)
	}
	s := testcert.New(t, "one").Issue(t, "sender", useless)
	c := testcert.New(t, "other").Issue(t, "receiver", useless)
	tlsExchange(t, pinned(t, s, s.Leaf, c.Leaf), pinned(t, c, s.Leaf, c.Leaf))
}

// connectTLS has a receiver try, and returns its error and what the sender logged.
func connectTLS(t *testing.T, send, receive *tls.Config) (error, *journal) {
	t.Helper()
	j := new(journal)
	a, b := open(t, Config{Listen: "127.0.0.1:0", TLS: send, Logger: j.logger()}), open(t, Config{TLS: receive})
	out := newOutput(t, a, OutputConfig{Name: "x"})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}, Wait: 2 * limit})
	_, err := in.Next(limited(t))
	names(t, err, a.Addr().String())
	if errors.Is(err, context.DeadlineExceeded) { // it is refused, and not tried again until the wait is over
		t.Error(err)
	}
	if err := errors.Join(in.Close(), out.Close()); err != nil {
		t.Error(err)
	}
	return err, j
}

func TestTLSRefuses(t *testing.T) {
	ca, other := testcert.New(t, "authority"), testcert.New(t, "other")
	good := func() *tls.Config { return ca.TLS(t, "node") }
	with := func(change func(*tls.Config)) *tls.Config {
		c := ca.TLS(t, "node")
		change(c)
		return c
	}
	expired := with(func(c *tls.Config) {
		c.Certificates[0] = ca.Issue(t, "old", func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Hour) })
	})
	stranger := with(func(c *tls.Config) { c.Certificates[0] = other.Issue(t, "stranger", nil) })
	alice, bob, eve := ca.Issue(t, "alice", nil), ca.Issue(t, "bob", nil), ca.Issue(t, "eve", nil)
	for _, c := range []struct {
		name          string
		send, receive *tls.Config
		err, log      string // in the receiver's error, in the sender's log
	}{
		{"server of another authority", stranger, good(), "unknown authority", "remote error: tls: "},
		{"client of another authority", good(), stranger, "remote error: tls: ", "unknown authority"},
		{"server expired", expired, good(), "expired", "remote error: tls: "},
		{"client expired", good(), expired, "remote error: tls: ", "expired"},
		{"server of another name", with(func(c *tls.Config) {
			c.Certificates[0] = ca.Issue(t, "elsewhere", func(x *x509.Certificate) { x.IPAddresses = nil })
		}), good(), "127.0.0.1", "remote error: tls: "},
		{"client without certificate", good(), with(func(c *tls.Config) {
			c.Certificates = nil
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(tls.Certificate), nil }
		}), "remote error: tls: ", "client didn't provide a certificate"},
		{"server not pinned", pinned(t, eve, bob.Leaf), pinned(t, bob, alice.Leaf), "certificate is not pinned", "remote error: tls: "},
		{"client not pinned", pinned(t, alice, bob.Leaf), pinned(t, eve, alice.Leaf), "remote error: tls: ", "certificate is not pinned"},
		{"server plain", nil, good(), "does not speak TLS", "TLS at one end only"},
		{"client plain", good(), nil, "TLS at one end only", "does not speak TLS"},
	} {
		for version, v := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
			t.Run(c.name+", "+version, func(t *testing.T) {
				receive := c.receive
				if receive != nil {
					receive = receive.Clone()
					receive.MinVersion, receive.MaxVersion = v, v
				}
				err, j := connectTLS(t, c.send, receive)
				names(t, err, c.err)
				j.await(t, c.log, "127.0.0.1:")
			})
		}
	}
}

// The errors are found by errors.Is, too.
func TestTLSErrors(t *testing.T) {
	ca := testcert.New(t, "authority")
	a, b := ca.Issue(t, "a", nil), ca.Issue(t, "b", nil)
	for _, c := range []struct {
		send, receive *tls.Config
		want          error
	}{
		{nil, ca.TLS(t, "node"), netio.ErrNotTLS},
		{ca.TLS(t, "node"), nil, ErrTLS},
		{pinned(t, a, b.Leaf), pinned(t, b, b.Leaf), ErrPin},
	} {
		if err, _ := connectTLS(t, c.send, c.receive); !errors.Is(err, c.want) {
			t.Errorf("%v is not %v", err, c.want)
		}
	}
}

// A configuration that would let in anybody is refused.
func TestTLSConfigMustAuthenticateBothEnds(t *testing.T) {
	ca := testcert.New(t, "authority")
	for name, change := range map[string]func(*tls.Config){
		"no certificate":     func(c *tls.Config) { c.Certificates = nil },
		"no trust":           func(c *tls.Config) { c.RootCAs, c.ClientCAs = nil, nil },
		"servers unverified": func(c *tls.Config) { c.InsecureSkipVerify = true },
		"clients unverified": func(c *tls.Config) { c.RootCAs, c.ClientCAs, c.ClientAuth = nil, nil, tls.RequireAnyClientCert },
		"per client": func(c *tls.Config) {
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
		},
		"nothing as a server": func(c *tls.Config) {
			c.Certificates = nil
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(tls.Certificate), nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ca.TLS(t, "node")
			change(cfg)
			n, err := Open(Config{Listen: "127.0.0.1:0", TLS: cfg})
			if err == nil {
				_ = n.Close()
				t.Fatal("accepted")
			}
			names(t, err, "TLS")
		})
	}
	// Demands that are too weak are raised, and the caller's configuration stays as it is.
	cfg := ca.TLS(t, "node")
	cfg.ClientAuth, cfg.MinVersion = tls.VerifyClientCertIfGiven, tls.VersionTLS10
	server, _, err := (&Config{TLS: cfg}).tls()
	if err != nil || server.Config.ClientAuth != tls.RequireAndVerifyClientCert || server.Config.MinVersion != tls.VersionTLS12 {
		t.Errorf("%v, %+v", err, server)
	}
	if cfg.ClientAuth != tls.VerifyClientCertIfGiven || cfg.MinVersion != tls.VersionTLS10 {
		t.Error("the caller's configuration was changed")
	}
}

func TestPinnedTLSFingerprints(t *testing.T) {
	cert := testcert.New(t, "authority").Issue(t, "node", nil)
	sha1 := Fingerprint(cert.Leaf)
	if len(sha1) != 40 {
		t.Fatalf("fingerprint %q", sha1)
	}
	colons := strings.ToLower(sha1[:2])
	for i := 2; i < 40; i += 2 {
		colons += ":" + strings.ToLower(sha1[i:i+2])
	}
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert.Leaf}}
	other := strings.Repeat("00", 20)
	for _, pins := range [][]string{{sha1}, {colons}, {other, " " + sha1}} {
		cfg, err := PinnedTLS(cert, pins...)
		if err != nil {
			t.Fatal(err)
		}
		if err := cfg.VerifyConnection(state); err != nil {
			t.Error(err)
		}
	}
	cfg, err := PinnedTLS(cert, other)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []tls.ConnectionState{state, {}} {
		if err := cfg.VerifyConnection(st); !errors.Is(err, ErrPin) {
			t.Errorf("%d certificates: %v", len(st.PeerCertificates), err)
		}
	}
	for _, bad := range [][]string{nil, {""}, {"12"}, {sha1 + "0"}, {strings.Repeat("xy", 20)}} {
		if _, err := PinnedTLS(cert, bad...); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

// Flink compares with what openssl and keytool print.
func TestFingerprintIsOfTheWholeCertificate(t *testing.T) {
	c := &x509.Certificate{Raw: []byte("abc")}
	if got := Fingerprint(c); got != "A9993E364706816ABA3E25717850C26C9CD0D89D" {
		t.Error(got)
	}
}
