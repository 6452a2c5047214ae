package redisconn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/testenv"
)

func open(t *testing.T, url string) rueidis.Client {
	t.Helper()
	c, err := Open(t.Context(), tidemill.NewSecret(url), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// verdicts are the findings as text: check=verdict.
func verdicts(fs []preflight.Finding) string {
	var all []string
	for _, f := range fs {
		all = append(all, f.Check+"="+f.Verdict)
	}
	return strings.Join(all, "\n")
}

func TestOpensAndInspects(t *testing.T) {
	all := func(where string) string {
		return strings.ReplaceAll("redis@: version=ok\nredis@: role=ok\nredis@: appendonly=ok\nredis@: maxmemory-policy=ok\nredis@: maxmemory=ok", "@", where)
	}
	c := open(t, testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--maxmemory-policy noeviction").URL)
	if got := verdicts(Inspect(t.Context(), c)); got != all("") {
		t.Errorf("findings on a sound Redis:\n%s", got)
	}
	cluster := open(t, testenv.RedisCluster(t))
	got := verdicts(Inspect(t.Context(), cluster))
	if n := strings.Count(got, "role=ok"); n != 3 {
		t.Errorf("findings on a cluster speak of %d masters, want 3:\n%s", n, got)
	}
}

func TestUnfitSettingsAreFound(t *testing.T) {
	s := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendonly no --maxmemory 100mb --maxmemory-policy allkeys-lru")
	t.Cleanup(s.Kill)
	c := open(t, s.URL)
	do := func(words ...string) {
		t.Helper()
		if err := c.Do(t.Context(), c.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatalf("%q: %v", words, err)
		}
	}
	want := func(check, verdict string) {
		t.Helper()
		for _, f := range Inspect(t.Context(), c) {
			if f.Check == "redis: "+check {
				if f.Verdict != verdict || f.Detail == "" || f.Verdict != preflight.OK && f.Advice == "" {
					t.Errorf("found %+v, want %s", f, verdict)
				}
				return
			}
		}
		t.Errorf("nothing was found out about %s", check)
	}
	want("appendonly", preflight.Fail)
	want("maxmemory-policy", preflight.Fail)
	want("maxmemory", preflight.OK)
	do("CONFIG", "SET", "appendonly", "yes", "appendfsync", "no", "maxmemory-policy", "noeviction", "maxmemory", "2mb")
	want("appendonly", preflight.Warn)
	want("maxmemory-policy", preflight.OK)
	do("CONFIG", "SET", "maxmemory", "1")
	want("maxmemory", preflight.Warn)
	err := c.Do(t.Context(), c.B().Set().Key("k").Value("v").Build()).Error()
	if Kind(err) != tidemill.RateLimit || !strings.Contains(Error(err, "set").Error(), "out of memory") {
		t.Errorf("a full Redis says %v, kind %v", Error(err, "set"), Kind(err))
	}
	do("CONFIG", "SET", "maxmemory", "0", "appendfsync", "always")
	want("appendonly", preflight.OK)
	do("REPLICAOF", "127.0.0.1", "1")
	want("role", preflight.Fail)
	if err := c.Do(t.Context(), c.B().Set().Key("k").Value("v").Build()).Error(); Kind(err) != tidemill.Transient {
		t.Errorf("a replica says %v, kind %v, want transient", err, Kind(err))
	}
	do("REPLICAOF", "NO", "ONE")
	do("ACL", "SETUSER", "limited", "on", ">pass@word", "~*", "+@all", "-config")
	user, host, _ := strings.Cut(s.URL, "://")
	c = open(t, user+"://limited:pass%40word@"+host)
	want("settings", preflight.Warn)
	want("appendonly", preflight.OK)
	if err := c.Do(t.Context(), c.B().ConfigGet().Parameter("save").Build()).Error(); Kind(err) != tidemill.Credentials {
		t.Errorf("a command that is not allowed says %v, kind %v", err, Kind(err))
	}
}

func TestKindsOfErrors(t *testing.T) {
	s := testenv.Start(t, testenv.PrivateRedis)
	link := testenv.NewLink(t, s.Addr)
	c := open(t, "redis://"+link.Addr)
	do := func(words ...string) error { return c.Do(t.Context(), c.B().Arbitrary(words...).Build()).Error() }
	want := func(err error, k tidemill.Kind) {
		t.Helper()
		if Kind(err) != k || tidemill.KindOf(Error(err, "x")) != k {
			t.Errorf("%v is of kind %v, want %v", err, Kind(err), k)
		}
	}
	if err := do("SET", "text", "x"); err != nil {
		t.Fatal(err)
	}
	want(do("XADD", "text", "*", "a", "b"), tidemill.Validation)
	want(do("NONSENSE"), tidemill.Internal)
	if err := do("CONFIG", "SET", "requirepass", "new"); err != nil {
		t.Fatal(err)
	}
	link.Refuse()
	want(do("PING"), tidemill.Transient)
	link.Heal()
	want(do("PING"), tidemill.Credentials)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := Open(ctx, tidemill.NewSecret("redis://:hunter2@"+s.Addr), Options{}); err == nil || tidemill.KindOf(err) != tidemill.Credentials || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a wrong password says %v", err)
	}
	c = open(t, "redis://:new@"+link.Addr)
	link.BlackHole()
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	want(c.Do(ctx, c.B().Ping().Build()).Error(), tidemill.Timeout)
}

func TestOpenEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	_, err = Open(ctx, tidemill.NewSecret("redis://"+l.Addr().String()), Options{Dial: time.Minute})
	if took := time.Since(start); !errors.Is(err, context.Canceled) || took > 5*time.Second {
		t.Errorf("Open returned %v after %v", err, took)
	}
}

func TestTLS(t *testing.T) {
	_, backend, _ := strings.Cut(testenv.Redis(t), "://")
	backend, _, _ = strings.Cut(backend, "/")
	ca, addr := tlsInFrontOf(t, backend)
	open(t, "rediss://"+addr+"?ca="+ca)
	open(t, "rediss://"+addr+"?skip_verify=true")
	if _, err := Open(t.Context(), tidemill.NewSecret("rediss://"+addr), Options{}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody trusts says %v", err)
	}
}

// tlsInFrontOf listens with a new certificate, returns its file, and passes all bytes on.
func tlsInFrontOf(t *testing.T, backend string) (file, addr string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", backend)
			if err != nil {
				in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); out.Close() }()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
		}
	}()
	return file, l.Addr().String()
}
