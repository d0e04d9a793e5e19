package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/testcert"
)

const keystorePassword = "internal_store_password"

func keystore(name string) string { return filepath.Join("testdata", "keystores", name+".p12") }

func passwordFile(t testing.TB, password string) string { return file(t, password+"\nnot this\n") }

// pemFiles writes a certificate and its key.
func pemFiles(t testing.TB, a *testcert.Authority, name string, change func(*x509.Certificate)) (cert, key string, c *x509.Certificate) {
	t.Helper()
	issued := a.Issue(t, name, change)
	certPEM, keyPEM := testcert.PEM(t, issued)
	return file(t, string(certPEM)), file(t, string(keyPEM)), issued.Leaf
}

// Records go from send to recv with each way to say who is who.
func TestTLSSameBytes(t *testing.T) {
	ca := testcert.New(t, "authority")
	caPEM := file(t, string(authorityPEM(t, ca)))
	aCert, aKey, a := pemFiles(t, ca, "a", nil)
	bCert, bKey, b := pemFiles(t, ca, "b", nil)
	password := passwordFile(t, keystorePassword)
	flink, err := (&tlsFlags{keystore: keystore("internal"), passwordFile: password}).certificate()
	if err != nil {
		t.Fatal(err)
	}
	in := lines(20_000, strconv.Itoa)
	for name, c := range map[string]struct{ send, recv []string }{
		"pem": {[]string{"--tls-cert", aCert, "--tls-key", aKey, "--tls-ca", caPEM}, []string{"--tls-cert", bCert, "--tls-key", bKey, "--tls-ca", caPEM}},
		"fingerprints": {
			[]string{"--tls-cert", aCert, "--tls-key", aKey, "--tls-fingerprint", weir.Fingerprint(b)},
			[]string{"--tls-cert", bCert, "--tls-key", bKey, "--tls-fingerprint", strings.Repeat("00", 20) + "," + strings.ToLower(weir.Fingerprint(a))},
		},
		"key store and trust store": {
			[]string{"--tls-keystore", keystore("node"), "--tls-ca", keystore("truststore"), "--tls-password-file", password},
			[]string{"--tls-keystore", keystore("node"), "--tls-ca", keystore("truststore"), "--tls-password-file", password},
		},
		"the key store of Flink's documentation, pinned": {
			[]string{"--tls-keystore", keystore("internal"), "--tls-fingerprint", weir.Fingerprint(flink.Leaf), "--tls-password-file", password},
			[]string{"--tls-keystore", keystore("internal"), "--tls-fingerprint", weir.Fingerprint(flink.Leaf), "--tls-password-file", password},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := outFile(t)
			send := start(t, append([]string{"send", "--name", "x", file(t, in)}, c.send...)...)
			recv := start(t, append([]string{"recv", "--name", "x", "--out", out, send.listening()}, c.recv...)...)
			recv.succeeds()
			send.succeeds()
			same(t, content(t, out), in)
		})
	}
}

func authorityPEM(t testing.TB, a *testcert.Authority) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw})
}

// logs waits until the process has written what to standard error.
func (p *process) logs(what string) {
	p.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		text := strings.Join(p.stderr, "\n")
		p.mu.Unlock()
		if strings.Contains(text, what) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("weir %s says nothing of %q: %s", p.args, what, text)
		}
	}
}

// A receiver without TLS, or with a certificate that is not trusted, fails at once with a reason, and the sender says whom it refused.
func TestTLSRefusals(t *testing.T) {
	ca, other := testcert.New(t, "authority"), testcert.New(t, "other")
	caPEM, otherPEM := file(t, string(authorityPEM(t, ca))), file(t, string(authorityPEM(t, other)))
	cert, key, _ := pemFiles(t, ca, "node", nil)
	own := []string{"--tls-cert", cert, "--tls-key", key}
	secured := append([]string{"--tls-ca", caPEM}, own...)
	for name, c := range map[string]struct {
		send, recv []string
		err, log   string
	}{
		"receiver without":  {secured, nil, "the server wants TLS, and this client has none", "the peer does not speak TLS"},
		"sender without":    {nil, secured, "the peer does not speak TLS", "the client wants TLS, and this server has none"},
		"another authority": {secured, append([]string{"--tls-ca", otherPEM}, own...), "unknown authority", "remote error: tls: "},
		"not pinned":        {secured, append([]string{"--tls-fingerprint", strings.Repeat("00", 20)}, own...), "certificate is not pinned", "bad certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			send := start(t, append([]string{"send", "--name", "x", "--wait", "30s", file(t, "a")}, c.send...)...)
			addr := send.listening()
			start(t, append([]string{"recv", "--name", "x", "--out", outFile(t), addr}, c.recv...)...).fails(addr, c.err)
			send.logs(c.log)
		})
	}
}

func TestTLSFlags(t *testing.T) {
	ca := testcert.New(t, "authority")
	caPEM := file(t, string(authorityPEM(t, ca)))
	cert, key, _ := pemFiles(t, ca, "node", nil)
	password := passwordFile(t, keystorePassword)
	fingerprint := strings.Repeat("0a:", 19) + "0A"
	for name, c := range map[string]struct {
		flags tlsFlags
		err   string // empty: none
	}{
		"none":                   {tlsFlags{}, ""},
		"key in one file":        {tlsFlags{cert: file(t, content(t, cert)+content(t, key)), ca: caPEM}, ""},
		"fingerprint":            {tlsFlags{cert: cert, key: key, fingerprint: fingerprint}, ""},
		"key store as ca":        {tlsFlags{keystore: keystore("internal"), ca: keystore("internal"), passwordFile: password}, ""},
		"no certificate":         {tlsFlags{ca: caPEM}, "--tls-cert"},
		"no trust":               {tlsFlags{cert: cert, key: key}, "--tls-ca or --tls-fingerprint"},
		"both trusts":            {tlsFlags{cert: cert, key: key, ca: caPEM, fingerprint: fingerprint}, "one of them"},
		"both certificates":      {tlsFlags{cert: cert, key: key, keystore: keystore("internal")}, "one or the other"},
		"no key":                 {tlsFlags{cert: cert, ca: caPEM}, "--tls-key"},
		"no file":                {tlsFlags{cert: "nowhere", ca: caPEM}, "nowhere"},
		"bad fingerprint":        {tlsFlags{cert: cert, key: key, fingerprint: "12:34"}, "40 digits"},
		"wrong password":         {tlsFlags{keystore: keystore("internal"), ca: caPEM, passwordFile: passwordFile(t, "guess")}, "wrong password"},
		"wrong for trust":        {tlsFlags{cert: cert, key: key, ca: keystore("truststore"), passwordFile: passwordFile(t, "guess")}, "wrong password"},
		"no password file":       {tlsFlags{keystore: keystore("internal"), ca: caPEM, passwordFile: "nowhere"}, "nowhere"},
		"trust store as own":     {tlsFlags{keystore: keystore("truststore"), ca: caPEM, passwordFile: password}, "private key"},
		"not a key store":        {tlsFlags{keystore: file(t, "text"), ca: caPEM}, "pkcs12"},
		"jks":                    {tlsFlags{keystore: file(t, "\xfe\xed\xfe\xed\x00\x00\x00\x02"), ca: caPEM}, "-deststoretype PKCS12"},
		"ca without certificate": {tlsFlags{cert: cert, key: key, ca: key}, "no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := c.flags.config()
			switch {
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got %v, want %q", err, c.err)
			case c.err == "" && err != nil:
				t.Error(err)
			case c.err == "" && (cfg == nil) != (name == "none"):
				t.Errorf("configuration %v", cfg)
			}
		})
	}
}

// The chain of a key store comes with the leaf first, and the password may be in the environment.
func TestKeystoreChain(t *testing.T) {
	t.Setenv(passwordVariable, keystorePassword)
	c, err := (&tlsFlags{keystore: keystore("node")}).certificate()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Certificate) != 2 || c.Leaf.Subject.CommonName != "node" || string(c.Certificate[0]) != string(c.Leaf.Raw) {
		t.Errorf("%d certificates, the first of %q", len(c.Certificate), c.Leaf.Subject)
	}
	if got := weir.Fingerprint(c.Leaf); got != "29965B0C21B5F106F5B43EBCB5F4A5B2801324B8" { // as keytool -list -v prints it
		t.Errorf("fingerprint %s", got)
	}
}

// What a password of the wrong kind gives is the library's own error, too.
func TestKeystoreWrongPassword(t *testing.T) {
	_, err := (&tlsFlags{keystore: keystore("node"), passwordFile: passwordFile(t, "")}).certificate()
	if !errors.Is(err, pkcs12.ErrIncorrectPassword) {
		t.Error(err)
	}
}

// The keytool of this machine writes what we read. Key stores of keytool 25 are in testdata in any case.
func TestKeystoreOfThisMachine(t *testing.T) {
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("there is no keytool on this machine; the key stores in testdata are read in other tests")
	}
	path := filepath.Join(t.TempDir(), "k.p12")
	cmd := exec.CommandContext(limited(t), keytool, "-genkeypair", "-alias", "x", "-keystore", path, "-dname", "CN=made here",
		"-storepass", keystorePassword, "-storetype", "PKCS12", "-keyalg", "EC", "-groupname", "secp256r1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f := tlsFlags{keystore: path, ca: path, passwordFile: passwordFile(t, keystorePassword)}
	cfg, err := f.config()
	if err != nil {
		t.Fatal(err)
	}
	if leaf := cfg.Certificates[0].Leaf; leaf.Subject.CommonName != "made here" {
		t.Error(leaf.Subject)
	}
}
