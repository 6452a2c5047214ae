package mqttconn

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/internal/testenv/testca"
)

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
	a := testca.New(t)
	a.Issue("broker", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.Issue("device-7", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	plain, mutual := freePort(t), freePort(t)
	listener := "listener %d 127.0.0.1\ncafile " + a.File("ca.crt") + "\ncertfile " + a.File("broker.crt") + "\nkeyfile " + a.File("broker.key") + "\n"
	testenv.Start(t, testenv.PrivateMosquitto, "MOSQUITTO_SETTINGS="+fmt.Sprintf(listener, plain)+fmt.Sprintf(listener, mutual)+"require_certificate true\n")

	ours := TLSFiles{CA: a.File("ca.crt"), Cert: a.File("device-7.crt"), Key: a.File("device-7.key")}
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
	for name, f := range map[string]TLSFiles{"no such file": {CA: "nowhere"}, "no PEM": {CA: a.File("ca.key")}, "no key": {Cert: ours.Cert}, "wrong key": {Cert: ours.Cert, Key: a.File("ca.key")}} {
		if _, err := f.Load(); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

func TestPasswords(t *testing.T) {
	testenv.Need(t)
	file := testca.New(t).File("passwords") // where the broker's user can read it
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
