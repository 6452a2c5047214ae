package mqttconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles says how to use TLS with brokers; the zero value trusts the system's roots.
type TLSFiles struct {
	CA         string   // file of the roots in PEM form; empty means the system's
	Cert, Key  string   // files of our certificate and its key; empty: none
	ServerName string   // expected of the broker; empty means the dialled host
	Insecure   bool     // accepts any certificate
	MinVersion uint16   // 0 means TLS 1.2
	Ciphers    []uint16 // of TLS 1.2; empty means Go's choice
}

// Load reads the files. Missing and unreadable ones are errors.
func (f TLSFiles) Load() (*tls.Config, error) {
	c := &tls.Config{MinVersion: max(f.MinVersion, tls.VersionTLS12), ServerName: f.ServerName, InsecureSkipVerify: f.Insecure, CipherSuites: f.Ciphers}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("mqtt: CA certificates: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("mqtt: %s holds no certificate in PEM form", f.CA)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("mqtt: client certificate and key go together")
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("mqtt: client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// CommonName is that of our own certificate, or empty without one.
func CommonName(c *tls.Config) string {
	if c == nil || len(c.Certificates) == 0 || len(c.Certificates[0].Certificate) == 0 {
		return ""
	}
	leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
	if err != nil {
		return ""
	}
	return leaf.Subject.CommonName
}
