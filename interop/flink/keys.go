package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keys are a key and a certificate that trusts itself, for both ends, as Flink's internal TLS is set up usually.
type keys struct {
	folder string // for Keys.java; an absolute path
	config *tls.Config
}

// newKeys makes keys for this machine, in a folder that is to be removed. RSA, since Flink's default cipher suites want it; with the
// name of this machine, since Flink 2.3 verifies that of the server it connects to.
func newKeys(folder string) (*keys, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	names := []string{"localhost"}
	if found, err := net.LookupAddr("127.0.0.1"); err == nil {
		for _, n := range found {
			names = append(names, strings.TrimSuffix(n, "."))
		}
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "localhost"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		DNSNames:     names,
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for name, p := range map[string][]byte{"key.der": pkcs8, "certificate.der": der} {
		if err := os.WriteFile(filepath.Join(folder, name), p, 0o600); err != nil {
			return nil, err
		}
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(cert)
	return &keys{folder: folder, config: &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      trusted,
		MinVersion:   tls.VersionTLS12,
	}}, nil
}
