// Package testca makes certificates for tests: of servers on loopback and of their clients.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t    testing.TB
	dir  string
	self tls.Certificate
}

// New makes a new authority. Every user of the machine can read the folder of its files,
// because servers may run as their own users.
func New(t testing.TB) *Authority {
	t.Helper()
	dir, err := os.MkdirTemp("", "tidemill-tls-") // not t.TempDir, which only its user can read
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := &Authority{t: t, dir: dir}
	a.self = a.Sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, time.Hour)
	return a
}

// Roots has the authority alone.
func (a *Authority) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.self.Leaf)
	return pool
}

// Sign makes a certificate of that common name, valid from two days ago for until from now:
// below zero it has expired.
func (a *Authority) Sign(name string, c *x509.Certificate, until time.Duration) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.check(err)
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	a.check(err)
	c.Subject = pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(until)
	parent, signer := c, key // the first is its own
	if a.self.Leaf != nil {
		parent, signer = a.self.Leaf, a.self.PrivateKey.(*ecdsa.PrivateKey)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	a.check(err)
	leaf, err := x509.ParseCertificate(der)
	a.check(err)
	made := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	a.write(name, made)
	return made
}

// Issue is Sign for an hour.
func (a *Authority) Issue(name string, c *x509.Certificate) tls.Certificate {
	a.t.Helper()
	return a.Sign(name, c, time.Hour)
}

// File is the path of name.crt or name.key of a signed certificate, ca.crt for the authority.
func (a *Authority) File(name string) string { return filepath.Join(a.dir, name) }

func (a *Authority) write(name string, c tls.Certificate) {
	a.t.Helper()
	private, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	a.check(err)
	for file, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		a.check(os.WriteFile(a.File(name+file), pem.EncodeToMemory(block), 0o644))
	}
}

func (a *Authority) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
