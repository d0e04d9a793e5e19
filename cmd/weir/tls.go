package main

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/weirflow/weir"
)

// passwordVariable has the password of key stores if no file does.
const passwordVariable = "WEIR_TLS_PASSWORD"

// tlsFlags say how connections are secured. Passwords are no flags: everybody can read those.
type tlsFlags struct {
	cert, key, ca, fingerprint, keystore, passwordFile string
}

func (f *tlsFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.cert, "tls-cert", "", "this node's certificate and its chain, PEM; turns on mutual TLS")
	fs.StringVar(&f.key, "tls-key", "", "its private key, PEM; the default is the file of --tls-cert")
	fs.StringVar(&f.keystore, "tls-keystore", "", "certificate and key instead, PKCS12 as keytool writes it")
	fs.StringVar(&f.ca, "tls-ca", "", "the authorities whose certificates are trusted, PEM or PKCS12")
	fs.StringVar(&f.fingerprint, "tls-fingerprint", "",
		"trust exactly the certificates with these SHA-1 (or SHA-256) fingerprints instead, separated by commas")
	fs.StringVar(&f.passwordFile, "tls-password-file", "",
		"file whose first line is the password of the key stores; the default is the variable "+passwordVariable)
}

// config returns nil if no flag asks for TLS.
func (f *tlsFlags) config() (*tls.Config, error) {
	if *f == (tlsFlags{}) {
		return nil, nil
	}
	cert, err := f.certificate()
	switch {
	case err != nil:
		return nil, err
	case f.ca != "" && f.fingerprint != "":
		return nil, errors.New("--tls-fingerprint replaces --tls-ca: want one of them")
	case f.fingerprint != "":
		cfg, err := weir.PinnedTLS(cert, strings.Split(f.fingerprint, ",")...)
		if err != nil {
			return nil, fmt.Errorf("--tls-fingerprint: %w", err)
		}
		return cfg, nil
	case f.ca == "":
		return nil, errors.New("TLS is mutual: want --tls-ca or --tls-fingerprint, to know which peers to trust")
	}
	pool, err := f.authorities()
	if err != nil {
		return nil, fmt.Errorf("--tls-ca %s: %w", f.ca, err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// certificate reads this node's certificate.
func (f *tlsFlags) certificate() (cert tls.Certificate, err error) {
	switch {
	case f.keystore != "" && (f.cert != "" || f.key != ""):
		return cert, errors.New("--tls-keystore replaces --tls-cert and --tls-key: want one or the other")
	case f.keystore != "":
		if cert, err = f.fromKeystore(); err != nil {
			err = fmt.Errorf("--tls-keystore %s: %w", f.keystore, err)
		}
		return cert, err
	case f.cert == "":
		return cert, errors.New("TLS is mutual: want --tls-cert and --tls-key, or --tls-keystore")
	}
	key := f.key
	if key == "" {
		key = f.cert
	}
	if cert, err = tls.LoadX509KeyPair(f.cert, key); err != nil {
		err = fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.cert, key, err)
	}
	return cert, err
}

// password is that of all key stores.
func (f *tlsFlags) password() (string, error) {
	if f.passwordFile == "" {
		return os.Getenv(passwordVariable), nil
	}
	b, err := os.ReadFile(f.passwordFile)
	if err != nil {
		return "", fmt.Errorf("--tls-password-file: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

// open reads a key store.
func (f *tlsFlags) open(path string) (data []byte, password string, err error) {
	if data, err = os.ReadFile(path); err != nil {
		return nil, "", err
	}
	if bytes.HasPrefix(data, []byte{0xfe, 0xed, 0xfe, 0xed}) {
		return nil, "", errors.New("it is a JKS: convert it with keytool -importkeystore -deststoretype PKCS12")
	}
	password, err = f.password()
	return data, password, err
}

// explain says what a user can do about an error of the PKCS12 reader.
func explain(err error) error {
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return fmt.Errorf("wrong password, see --tls-password-file: %w", err)
	}
	return err
}

// fromKeystore reads the certificate of a key store, with its chain, and its only private key.
func (f *tlsFlags) fromKeystore() (cert tls.Certificate, err error) {
	data, password, err := f.open(f.keystore)
	if err != nil {
		return cert, err
	}
	return decodeKeystore(data, password)
}

// decodeKeystore returns the certificate of the private key first.
func decodeKeystore(data []byte, password string) (cert tls.Certificate, err error) {
	key, first, others, err := pkcs12.DecodeChain(data, password)
	if err != nil {
		return cert, explain(err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return cert, fmt.Errorf("a private key of type %T cannot sign", key)
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	cert.PrivateKey = key
	for _, c := range append([]*x509.Certificate{first}, others...) {
		if cert.Leaf == nil && ok && public.Equal(c.PublicKey) {
			cert.Leaf = c
			cert.Certificate = append([][]byte{c.Raw}, cert.Certificate...)
			continue
		}
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	if cert.Leaf == nil {
		return cert, errors.New("no certificate belongs to the private key")
	}
	return cert, nil
}

// authorities reads whom to trust: certificates in PEM, the trusted entries of a key store, or, as Java does, the certificate of a
// key store with a private key.
func (f *tlsFlags) authorities() (*x509.CertPool, error) {
	data, password, err := f.open(f.ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if block, _ := pem.Decode(data); block != nil {
		if !pool.AppendCertsFromPEM(data) {
			return nil, errors.New("no certificate in it")
		}
		return pool, nil
	}
	certs, err := pkcs12.DecodeTrustStore(data, password)
	if err != nil {
		own, keyErr := decodeKeystore(data, password)
		if keyErr != nil {
			return nil, explain(err)
		}
		certs = []*x509.Certificate{own.Leaf}
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate in it")
	}
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool, nil
}
