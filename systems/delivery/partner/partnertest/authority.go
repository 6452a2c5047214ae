package partnertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority makes certificates, of servers on loopback and of clients.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes one that nobody knows yet.
func NewAuthority(t testing.TB) *Authority {
	a := &Authority{t: t}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "an authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	c := a.issue(template, time.Hour)
	a.cert, a.key = c.Leaf, c.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// Roots has the authority alone.
func (a *Authority) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue signs a certificate that is good until then; the authority's first is its own.
func (a *Authority) issue(template *x509.Certificate, until time.Duration) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62))
	template.NotBefore, template.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(until)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *Authority) server(until time.Duration) tls.Certificate {
	return a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "a partner"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{"partner.test"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, until)
}

// Server is the TLS of a server, that wants certificates of this authority from its clients
// where it is told to.
func (a *Authority) Server(clients bool) *tls.Config {
	c := &tls.Config{Certificates: []tls.Certificate{a.server(time.Hour)}, MinVersion: tls.VersionTLS12}
	if clients {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, a.Roots()
	}
	return c
}

// Expired is the TLS of a server whose certificate ran out a day ago.
func (a *Authority) Expired() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.server(-24 * time.Hour)}, MinVersion: tls.VersionTLS12}
}

// Client is a client's certificate.
func (a *Authority) Client() []tls.Certificate {
	return []tls.Certificate{a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "us"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, time.Hour)}
}

// ClientFiles writes a client's certificate and its key, and returns their paths.
func (a *Authority) ClientFiles() (cert, key string) {
	a.t.Helper()
	c := a.Client()[0]
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key
}
