package clickhousehttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// version is the answer to Open's query.
const version = "\x0926.9.2.1x"

// serve is a server that answers with its version and then as answer does.
func serve(t testing.TB, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(first(answer))
	t.Cleanup(s.Close)
	return s
}

func first(answer http.HandlerFunc) http.HandlerFunc {
	opened := make(chan struct{}, 1)
	opened <- struct{}{}
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-opened:
			fmt.Fprint(w, version)
		default:
			answer(w, r)
		}
	}
}

func open(t testing.TB, rawURL string, o Options) *Conn {
	t.Helper()
	c, err := Open(t.Context(), rawURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAddressesAreRead(t *testing.T) {
	for _, c := range []struct {
		url, host, user, password, database string
		o                                   Options
		gzip                                bool
	}{
		{"http://localhost", "localhost:8123", "default", "", "", Options{}, false},
		{"https://ch.example", "ch.example:8443", "default", "", "", Options{}, true},
		{"https://ch.example:443/through/here?database=d", "ch.example:443", "default", "", "d", Options{Compression: None}, false},
		{"http://u:p%40ss@127.0.0.1:1", "127.0.0.1:1", "u", "p@ss", "", Options{Compression: Gzip}, true},
		{"http://u:p@[::1]/?database=d", "[::1]:8123", "v", "q", "e", Options{User: "v", Password: tidemill.NewSecret("q"), Database: "e"}, false},
	} {
		got, err := configure(c.url, c.o)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if got.url.Host != c.host || got.user != c.user || got.password.Reveal() != c.password || got.database != c.database || got.gzip != c.gzip {
			t.Errorf("%s: host %s, user %s, database %s, gzip %t", c.url, got.url.Host, got.user, got.database, got.gzip)
		}
		if strings.Contains(got.url.String(), "@") {
			t.Errorf("%s: the account is left in %s", c.url, got.url.String())
		}
	}
	for _, url := range []string{"", "localhost:8123", "tcp://h:9000", "http://", "http://u:secret@h:x", "http://h/?user=x", "http://h/?database=a&database=b"} {
		if _, err := configure(url, Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, o := range []Options{{Compression: "zstd"}, {Timeout: -1}, {MaxAnswer: -1}, {Password: tidemill.NewSecret("a\n")}} {
		if _, err := configure("http://h", o); err == nil {
			t.Errorf("%+v is not refused", o)
		}
	}
}

func TestAnswersHaveTheirKind(t *testing.T) {
	const thrown = "Code: %d. DB::Exception: no. (NAME) (version 26.9)\n"
	for _, c := range []struct {
		name         string
		status, code int    // of the header; 0: none
		body         string //
		kind         tidemill.Kind
		after        time.Duration
	}{
		{"wrong password", 403, 516, thrown, tidemill.Credentials, 0},
		{"no right", 500, 497, thrown, tidemill.Credentials, 0},
		{"unknown user, said in the text only", 500, 0, "Code: 192. DB::Exception: no", tidemill.Credentials, 0},
		{"too many parts", 500, 252, thrown, tidemill.RateLimit, 0},
		{"too many queries", 500, 202, thrown, tidemill.RateLimit, 0},
		{"memory", 500, 241, thrown, tidemill.Transient, 0},
		{"too slow", 408, 159, thrown, tidemill.Timeout, 0},
		{"a disk that is full", 500, 243, thrown, tidemill.Transient, 0},
		{"read only replica", 500, 242, thrown, tidemill.Transient, 0},
		{"unknown table", 404, 60, thrown, tidemill.Transient, 0},
		{"unknown database", 404, 81, thrown, tidemill.Transient, 0},
		{"no such column", 404, 16, thrown, tidemill.Transient, 0},
		{"syntax", 400, 62, thrown, tidemill.Transient, 0},
		{"a body cut short", 400, 33, thrown, tidemill.Transient, 0},
		{"a type that does not fit", 400, 53, thrown, tidemill.Transient, 0},
		{"a code of the future", 400, 9999, thrown, tidemill.Transient, 0},
		{"a text that is no number", 400, 6, thrown, tidemill.Validation, 0},
		{"a value out of range", 400, 321, thrown, tidemill.Validation, 0},
		{"a constraint", 500, 469, thrown, tidemill.Validation, 0},
		{"an exception under a good status", 200, 60, thrown, tidemill.Transient, 0},
		{"an exception after a good status", 200, 0, "Code: 241. DB::Exception: memory", tidemill.Transient, 0},
		{"a parse error after a good status", 200, 0, "Code: 27. DB::ParsingException: no", tidemill.Validation, 0},
		{"a proxy that wants a password", 401, 0, "<html>", tidemill.Credentials, 0},
		{"a proxy that forbids", 403, 0, "<html>", tidemill.Credentials, 0},
		{"a proxy that wants less", 429, 0, "", tidemill.RateLimit, 7 * time.Second},
		{"a proxy without a server", 503, 0, "<html>", tidemill.Transient, 7 * time.Second},
		{"a proxy that waited in vain", 504, 0, "", tidemill.Timeout, 7 * time.Second},
		{"a proxy with a bad server", 502, 0, "", tidemill.Transient, 7 * time.Second},
		{"a batch too large for a proxy", 413, 0, "", tidemill.Validation, 7 * time.Second},
		{"a path that is not there", 404, 0, "no", tidemill.Transient, 7 * time.Second},
		{"a redirect", 301, 0, "", tidemill.Transient, 7 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests := 0
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				if c.code != 0 {
					w.Header().Set("X-ClickHouse-Exception-Code", fmt.Sprint(c.code))
				}
				if c.after > 0 {
					w.Header().Set("Retry-After", "7")
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				body := c.body
				if strings.Contains(body, "%d") {
					body = fmt.Sprintf(body, c.code)
				}
				fmt.Fprint(w, body)
			})
			err := open(t, s.URL, Options{}).Insert(t.Context(), "INSERT INTO t FORMAT Native", []byte("block"))
			e, ok := errors.AsType[*tidemill.Error](err)
			if !ok || e.Kind != c.kind || e.After != c.after {
				t.Fatalf("%#v: want kind %v after %v", err, c.kind, c.after)
			}
			if c.code != 0 && Code(err) != c.code {
				t.Errorf("code %d, want %d", Code(err), c.code)
			}
			if requests != 1 {
				t.Errorf("%d requests, want 1: who repeats is decided elsewhere", requests)
			}
		})
	}
}

func TestAnExceptionInsideAResultIsNoShortResult(t *testing.T) {
	for _, body := range []string{"\x01aCode: 241. DB::Exception: Memory limit", "\x01a\xf0Code: 241. DB::Exception: Memory limit"} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, body) })
		rows, err := open(t, s.URL, Options{}).Query(t.Context(), "SELECT")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for rows.Next() {
			if s := rows.String(); rows.Err() == nil && n == 0 && s != "a" {
				t.Errorf("read %q", s)
			}
			n++
		}
		rows.Close()
		rows.Close()
		if rows.Err() == nil {
			t.Errorf("%q: no error after %d rows", body, n)
		}
	}
}

func TestLostConnectionsAreTransient(t *testing.T) {
	cut := func(w http.ResponseWriter) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n\x01a")
		c.Close()
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { cut(w) })
	c := open(t, s.URL, Options{})
	if err := c.Exec(t.Context(), "SELECT"); err == nil || tidemill.KindOf(err) != tidemill.Transient {
		t.Errorf("Exec: %v", err)
	}
	rows, err := c.Query(t.Context(), "SELECT")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		_ = rows.String()
	}
	if err := rows.Err(); err == nil || tidemill.KindOf(err) != tidemill.Transient {
		t.Errorf("Rows: %v", err)
	}
	s.Close()
	if err := c.Exec(t.Context(), "SELECT"); err == nil || tidemill.KindOf(err) != tidemill.Transient || strings.Contains(err.Error(), "SELECT") {
		t.Errorf("Exec on a closed port: %v", err)
	}
}

func TestNoAnswerInTimeIsATimeout(t *testing.T) {
	over := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("default_format") != "" {
			fmt.Fprint(w, "\x01a")
			_ = http.NewResponseController(w).Flush()
		}
		<-over
	})
	defer close(over)
	c := open(t, s.URL, Options{Timeout: 50 * time.Millisecond})
	if err := c.Exec(t.Context(), "SELECT"); tidemill.KindOf(err) != tidemill.Timeout {
		t.Errorf("Exec: %v", err)
	}
	rows, err := c.Query(t.Context(), "SELECT")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		_ = rows.String()
	}
	if err := rows.Err(); err == nil || tidemill.KindOf(err) != tidemill.Timeout {
		t.Errorf("Rows: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Exec(ctx, "SELECT"); !errors.Is(err, context.Canceled) {
		t.Errorf("Exec after the end of its context: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, ok := errors.AsType[*tidemill.Error](c.Exec(ctx, "SELECT")); ok {
		t.Error("the end of a context has a kind")
	}
}

func TestABlockMayBeReusedAfterInsert(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "not read", http.StatusBadRequest) })
	c := open(t, s.URL, Options{})
	block := make([]byte, 8<<20)
	for range 20 {
		if err := c.Insert(t.Context(), "INSERT", block); err == nil {
			t.Fatal("Insert returned nil")
		}
		for i := range block { // found by the race detector while the transport still reads
			block[i]++
		}
	}
}

func TestResultsHaveALimit(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for range 1000 {
			fmt.Fprint(w, "\x0a0123456789")
		}
	})
	rows, err := open(t, s.URL, Options{MaxAnswer: 500}).Query(t.Context(), "SELECT")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		if rows.String() != "" {
			n++
		}
	}
	if rows.Err() == nil || n != 50 {
		t.Errorf("read %d rows of 10 bytes, %v; want 50 and an error", n, rows.Err())
	}
}

func TestThePasswordIsNeverShown(t *testing.T) {
	const secret = "hunter2-and-more"
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-ClickHouse-Key") != secret || strings.Contains(r.URL.String(), secret) {
			t.Errorf("the password is not in its header, or it is in %s", r.URL)
		}
		w.Header().Set("X-ClickHouse-Exception-Code", "62")
		http.Error(w, "Code: 62. DB::Exception: in SOURCE(PASSWORD '"+secret+"') "+strings.Repeat("é", 1000), http.StatusBadRequest)
	})
	c := open(t, strings.Replace(s.URL, "http://", "http://u:"+secret+"@", 1), Options{})
	err := c.Exec(t.Context(), "SELECT")
	if text := fmt.Sprintf("%v %+v %#v %v", err, err, c.password, c.password); err == nil || strings.Contains(text, secret) {
		t.Errorf("shown: %s", text)
	}
	if len(err.Error()) > shownBytes+10 || strings.Contains(err.Error(), "\ufffd") {
		t.Errorf("%d bytes: %q", len(err.Error()), err)
	}
}

// secure is a server with a certificate of its own CA.
func secure(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused handshakes
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestTLSIsChecked(t *testing.T) {
	asked := 0
	s := secure(t, first(func(w http.ResponseWriter, r *http.Request) { asked++ }))
	roots := x509.NewCertPool()
	_, err := Open(t.Context(), s.URL, Options{TLS: &tls.Config{RootCAs: roots}})
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
		t.Errorf("with a strange CA: %v", err)
	}
	roots.AddCert(s.Certificate())
	c := open(t, s.URL, Options{TLS: &tls.Config{RootCAs: roots}})
	if err := c.Exec(t.Context(), "SELECT 1"); err != nil || asked != 1 || c.Version() != "26.9.2.1x" {
		t.Errorf("with its CA: %v, version %q", err, c.Version())
	}
}

func TestNamesAndTextsAreQuoted(t *testing.T) {
	if got := Name("a`b\\c"); got != "`a\\`b\\\\c`" {
		t.Error(got)
	}
	if got := Text("a'b\\c\x00"); got != `'a\'b\\c\0'` {
		t.Error(got)
	}
}

// For any answer of a server, reading ends without panic and without much memory.
func FuzzRows(f *testing.F) {
	f.Add([]byte("\x01a\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("\xff\xff\xff\x7fabc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &Conn{max: 1 << 20}
		rows := newRows(t.Context(), t.Context(), c, bytes.NewReader(b), func() {})
		defer rows.Close()
		n := 0
		for rows.Next() {
			rows.UInt8()
			n += 1 + len(rows.String())
			rows.UUID()
			rows.UInt16()
			rows.Int64()
		}
		if n > len(b) {
			t.Errorf("%d bytes came out of %d", n, len(b))
		}
	})
}
