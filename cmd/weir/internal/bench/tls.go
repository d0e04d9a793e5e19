package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

// newIdentity makes the certificate, with its key, that both ends of a run show and trust: PEM.
func newIdentity() (cert, key string, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weir bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), nil
}

// pinned is the configuration of an end.
func pinned(opt *Options) (*tls.Config, error) {
	cert, err := tls.X509KeyPair([]byte(opt.Cert), []byte(opt.Key))
	if err != nil {
		return nil, err
	}
	cfg, err := weir.PinnedTLS(cert, weir.Fingerprint(cert.Leaf))
	if err != nil {
		return nil, err
	}
	cfg.MinVersion = tls.VersionTLS13
	return cfg, nil
}

// besideTLS: the same without TLS, and TLS as one would use it by hand.
func besideTLS(opt Options) []beside {
	if !opt.TLS {
		return nil
	}
	plain := opt
	plain.TLS = false
	return []beside{{"plain", "bulk", plain}, {"crypto/tls", "crypto/tls", opt}}
}

// The row crypto/tls: tls.Conn over net.Conn, batches of 16 frames behind a length of 8 bytes in one write, reads of as much.
const (
	tlsHead  = 8
	tlsBatch = 16
)

func sendCryptoTLS(_ context.Context, r *role) error {
	cfg, err := pinned(r.opt)
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		return err
	}
	measure.Announce(r.out, l.Addr().String())
	c, err := l.Accept()
	if err != nil {
		return err
	}
	batch := make([]byte, tlsBatch*(tlsHead+frameSize))
	for n := uint64(0); ; {
		for i := range tlsBatch {
			f := batch[i*(tlsHead+frameSize):][:tlsHead+frameSize]
			binary.LittleEndian.PutUint64(f, frameSize)
			if err := stamp(f[tlsHead:], n); err != nil {
				return err
			}
			n++
		}
		if _, err := c.Write(batch); err != nil {
			return err
		}
		r.meter.Add(tlsBatch*frameSize, tlsBatch)
	}
}

func receiveCryptoTLS(ctx context.Context, r *role) error {
	cfg, err := pinned(r.opt)
	if err != nil {
		return err
	}
	d := tls.Dialer{NetDialer: new(net.Dialer), Config: cfg}
	c, err := d.DialContext(ctx, "tcp", r.addr)
	if err != nil {
		return err
	}
	region := make([]byte, tlsBatch*(tlsHead+frameSize))
	rest := stampedSum(frameSize)
	for have, n := 0, uint64(0); ; {
		k, err := c.Read(region[have:])
		if err != nil {
			return err
		}
		have += k
		b := region[:have]
		frames := int64(0)
		for ; len(b) >= tlsHead+frameSize; n++ {
			if sum := measure.SumWords(b[tlsHead:][:frameSize]); binary.LittleEndian.Uint64(b) != frameSize || sum != rest+n {
				return fmt.Errorf("the words of frame %d add up to %x, want %x", n, sum, rest+n)
			}
			b = b[tlsHead+frameSize:]
			frames++
		}
		have = copy(region, b)
		if frames > 0 {
			r.meter.Add(frames*frameSize, frames)
		}
	}
}
