package partnertest

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv/testca"
)

// Authority makes certificates, of servers on loopback and of clients.
type Authority struct{ *testca.Authority }

// NewAuthority makes a new authority.
func NewAuthority(t testing.TB) *Authority { return &Authority{testca.New(t)} }

func (a *Authority) server(until time.Duration) tls.Certificate {
	return a.Sign("a partner", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{"partner.test"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, until)
}

// Server is the TLS of a server; with clients it requires certificates of this authority.
func (a *Authority) Server(clients bool) *tls.Config {
	c := &tls.Config{Certificates: []tls.Certificate{a.server(time.Hour)}, MinVersion: tls.VersionTLS12}
	if clients {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, a.Roots()
	}
	return c
}

// Expired is the TLS of a server whose certificate expired a day ago.
func (a *Authority) Expired() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.server(-24 * time.Hour)}, MinVersion: tls.VersionTLS12}
}

// Client is a client's certificate.
func (a *Authority) Client() []tls.Certificate {
	return []tls.Certificate{a.Issue("us", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})}
}

// ClientFiles writes a client's certificate and its key, and returns their paths.
func (a *Authority) ClientFiles() (cert, key string) {
	a.Client()
	return a.File("us.crt"), a.File("us.key")
}
