package mqttconn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
)

// authority signs certificates for a test, into files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	dir, err := os.MkdirTemp("", "tidemill-tls-") // not t.TempDir: the broker's user must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, dir: dir}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue makes name.crt and name.key.
func (a *authority) issue(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(a.file(name+file), pem.EncodeToMemory(block), 0o644); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestTLS(t *testing.T) {
	testenv.Need(t)
	a := newAuthority(t)
	a.issue("broker", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.issue("device-7", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	plain, mutual := freePort(t), freePort(t)
	listener := "listener %d 127.0.0.1\ncafile " + a.file("ca.crt") + "\ncertfile " + a.file("broker.crt") + "\nkeyfile " + a.file("broker.key") + "\n"
	testenv.Start(t, testenv.PrivateMosquitto, "MOSQUITTO_SETTINGS="+fmt.Sprintf(listener, plain)+fmt.Sprintf(listener, mutual)+"require_certificate true\n")

	ours := TLSFiles{CA: a.file("ca.crt"), Cert: a.file("device-7.crt"), Key: a.file("device-7.key")}
	for name, c := range map[string]struct {
		port  int
		files TLSFiles
		want  bool
	}{
		"the broker's certificate is checked": {plain, TLSFiles{CA: ours.CA}, true},
		"an unknown authority is refused":     {plain, TLSFiles{}, false},
		"another name is refused":             {plain, TLSFiles{CA: ours.CA, ServerName: "elsewhere"}, false},
		"insecure takes any":                  {plain, TLSFiles{Insecure: true, ServerName: "elsewhere"}, true},
		"our certificate lets us in":          {mutual, ours, true},
		"without one we stay out":             {mutual, TLSFiles{CA: ours.CA}, false},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := c.files.Load()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if c.want {
				ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
			}
			defer cancel()
			cl, err := Open(ctx, []string{fmt.Sprintf("tls://127.0.0.1:%d", c.port)}, Options{TLS: config})
			if (err == nil) != c.want {
				t.Fatalf("Open returned %v", err)
			}
			if err != nil {
				return
			}
			defer cl.abort()
			if err := cl.Publish(ctx, numbers("t", 0, 1000, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	config, err := ours.Load()
	if err != nil {
		t.Fatal(err)
	}
	if got := CommonName(config); got != "device-7" {
		t.Errorf("our common name is %q", got)
	}
	for name, f := range map[string]TLSFiles{"no such file": {CA: "nowhere"}, "no PEM": {CA: a.file("ca.key")}, "no key": {Cert: ours.Cert}, "wrong key": {Cert: ours.Cert, Key: a.file("ca.key")}} {
		if _, err := f.Load(); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

func TestPasswords(t *testing.T) {
	testenv.Need(t)
	dir := newAuthority(t).dir
	file := filepath.Join(dir, "passwords")
	if err := os.WriteFile(file, []byte("bridge:$7$101$bm9uc2Vuc2U=$bm9uc2Vuc2U=\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := testenv.Start(t, testenv.PrivateMosquitto, "MOSQUITTO_SETTINGS=per_listener_settings false\nlistener "+fmt.Sprint(freePort(t))+" 127.0.0.1\npassword_file "+file)
	for _, version := range []byte{4, 5} {
		const password = "very-secret"
		_, err := Open(t.Context(), []string{s.URL}, Options{Version: version, User: "bridge", Password: tidemill.NewSecret(password)})
		if tidemill.KindOf(err) != tidemill.Credentials {
			t.Errorf("MQTT %d: Open with a wrong password returned %v, want credentials", version, err)
		}
	}
}
