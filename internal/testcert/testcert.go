package testcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

var serial atomic.Int64

// Authority issues certificates.
type Authority struct {
	Cert *x509.Certificate
	key  crypto.Signer
}

// New makes an authority.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	key := newKey(t)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return &Authority{Cert: create(t, cert, cert, key.Public(), key), key: key}
}

// Issue makes a certificate for a node on this machine: the names localhost, 127.0.0.1 and ::1, valid for some hours. change, if
// not nil, may alter what is signed.
func (a *Authority) Issue(t testing.TB, name string, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key := newKey(t)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if change != nil {
		change(cert)
	}
	leaf := create(t, cert, a.Cert, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

// Pool holds the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.Cert)
	return p
}

// TLS is a configuration for both ends with a certificate that the authority has issued, and trust in the authority alone.
func (a *Authority) TLS(t testing.TB, name string) *tls.Config {
	t.Helper()
	return &tls.Config{
		Certificates: []tls.Certificate{a.Issue(t, name, nil)},
		RootCAs:      a.Pool(), ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// PEM returns a certificate and its key as PEM.
func PEM(t testing.TB, c tls.Certificate) (cert, key []byte) {
	t.Helper()
	for _, der := range c.Certificate {
		cert = append(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func create(t testing.TB, cert, parent *x509.Certificate, public any, key crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
