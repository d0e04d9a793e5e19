package weir

import (
	"crypto/sha1" // Flink's fingerprints; finding a second certificate with a given one is out of reach
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/netio"
)

var (
	// ErrPin is in the error for a peer whose certificate is not among the pinned ones.
	ErrPin = errors.New("certificate is not pinned")
	// ErrTLS is in the error for a connection one end of which speaks TLS, and the other one does not. The end with TLS says
	// netio.ErrNotTLS.
	ErrTLS = credit.ErrTLS
)

// tls returns what servers and clients use, nil without TLS. It refuses what would not authenticate both ends.
func (c *Config) tls() (server, client *netio.TLS, err error) {
	if c.TLS == nil {
		return nil, nil, nil
	}
	s, k := c.TLS.Clone(), c.TLS.Clone()
	// Each connection is verified for itself.
	s.SessionTicketsDisabled, k.ClientSessionCache = true, nil
	if len(k.Certificates) == 1 && k.GetClientCertificate == nil {
		// Shown also to servers that say they trust other authorities: they then tell what is wrong with it, rather than that
		// there is none.
		k.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &k.Certificates[0], nil }
	}
	callback := c.TLS.VerifyConnection != nil || c.TLS.VerifyPeerCertificate != nil
	hasCert := len(c.TLS.Certificates) > 0
	s.MinVersion, k.MinVersion = max(s.MinVersion, tls.VersionTLS12), max(k.MinVersion, tls.VersionTLS12)
	switch {
	case c.TLS.GetConfigForClient != nil:
		return nil, nil, errors.New("TLS with GetConfigForClient: it could let in clients without a certificate")
	case !hasCert && c.TLS.GetClientCertificate == nil:
		return nil, nil, errors.New("TLS is mutual: this node needs a certificate to show as a client")
	case !hasCert && c.TLS.GetCertificate == nil && c.Listen != "":
		return nil, nil, errors.New("TLS is mutual: this node needs a certificate to show as a server")
	case c.TLS.InsecureSkipVerify && !callback:
		return nil, nil, errors.New("TLS with InsecureSkipVerify, and nothing else that verifies servers")
	case c.TLS.ClientAuth == tls.RequireAnyClientCert && callback:
		// The callback decides.
	case c.TLS.RootCAs == nil && c.TLS.ClientCAs == nil:
		// The system's authorities vouch for any site of the web.
		return nil, nil, errors.New("TLS without RootCAs, ClientCAs or pinned certificates: no peer could be trusted")
	default:
		s.ClientAuth = tls.RequireAndVerifyClientCert
		if s.ClientCAs == nil {
			s.ClientCAs = s.RootCAs
		}
		if k.RootCAs == nil {
			k.RootCAs = k.ClientCAs
		}
	}
	return &netio.TLS{Config: s, Handshake: c.HandshakeTimeout, HalfOpen: c.HalfOpen},
		&netio.TLS{Config: k, Handshake: c.HandshakeTimeout}, nil
}

// PinnedTLS returns a configuration for Config.TLS that shows cert and trusts exactly the peers whose leaf certificate has one of
// the fingerprints, as Flink does with security.ssl.internal.cert.fingerprint: who issued the certificate, its names and until when
// it is valid do not count. A fingerprint is the SHA-1 of the certificate (DER), or its SHA-256, in hexadecimal digits of either
// case, colons allowed; Fingerprint returns it.
func PinnedTLS(cert tls.Certificate, fingerprints ...string) (*tls.Config, error) {
	pins := make(map[string]bool, len(fingerprints))
	for _, f := range fingerprints {
		sum, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(f), ":", ""))
		if err != nil || len(sum) != sha1.Size && len(sum) != sha256.Size {
			return nil, fmt.Errorf("weir: fingerprint %q: want the 40 digits of a SHA-1 or the 64 of a SHA-256, colons allowed", f)
		}
		pins[string(sum)] = true
	}
	if len(pins) == 0 {
		return nil, errors.New("weir: pinned TLS without a fingerprint: no peer could be trusted")
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		Certificates:       []tls.Certificate{cert},
		InsecureSkipVerify: true, // VerifyConnection does it
		ClientAuth:         tls.RequireAnyClientCert,
		VerifyConnection: func(st tls.ConnectionState) error {
			if len(st.PeerCertificates) == 0 {
				return fmt.Errorf("weir: %w: the peer showed none", ErrPin)
			}
			leaf := st.PeerCertificates[0]
			s1, s2 := sha1.Sum(leaf.Raw), sha256.Sum256(leaf.Raw)
			if !pins[string(s1[:])] && !pins[string(s2[:])] {
				return fmt.Errorf("weir: %w: the peer's, of %q, has SHA-1 %X", ErrPin, leaf.Subject, s1)
			}
			return nil
		},
	}, nil
}

// Fingerprint returns the SHA-1 of a certificate in the form that Flink's configuration and PinnedTLS take.
func Fingerprint(cert *x509.Certificate) string { return fmt.Sprintf("%X", sha1.Sum(cert.Raw)) }
