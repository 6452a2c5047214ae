package opensearchhttp

import (
	"bytes"
	"compress/gzip"
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

const greeting = `{"version":{"number":"2.19.5","distribution":"opensearch"}}`

// serve is a server that greets and otherwise answers as answer does.
func serve(t testing.TB, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(greets(answer))
	t.Cleanup(s.Close)
	return s
}

func greets(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			fmt.Fprint(w, greeting)
			return
		}
		answer(w, r)
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
		url, host, path, user, password, key string
		o                                    Options
		gzip                                 bool
	}{
		{"http://localhost", "localhost:9200", "", "", "", "", Options{}, false},
		{"https://s.example/", "s.example:9200", "", "", "", "", Options{}, true},
		{"https://s.example:443/through/here/", "s.example:443", "/through/here", "", "", "", Options{Compression: None}, false},
		{"http://u:p%40ss@127.0.0.1:1", "127.0.0.1:1", "", "u", "p@ss", "", Options{Compression: Gzip}, true},
		{"http://u:p@[::1]", "[::1]:9200", "", "v", "q", "", Options{User: "v", Password: tidemill.NewSecret("q")}, false},
		{"https://h?api_key=a2V5", "h:9200", "", "", "", "a2V5", Options{}, true},
	} {
		got, err := configure(c.url, c.o)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if got.url.Host != c.host || got.url.Path != c.path || got.user != c.user || got.password.Reveal() != c.password || got.key.Reveal() != c.key || got.gzip != c.gzip {
			t.Errorf("%s: host %s, path %s, user %s, gzip %t", c.url, got.url.Host, got.url.Path, got.user, got.gzip)
		}
		if text := fmt.Sprintf("%v %+v %s", got.password, got.key, got.url.String()); strings.Contains(text, "@") || strings.Contains(text, "a2V5") {
			t.Errorf("%s: a secret is left in %s", c.url, text)
		}
	}
	for _, url := range []string{"", "localhost:9200", "tcp://h:9200", "http://", "http://u:secret@h:x", "http://h/?user=secret", "http://h/?api_key=a&api_key=b", "http://:secret@h", "http://u%3Av:secret@h"} {
		if _, err := configure(url, Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, o := range []Options{{Compression: "zstd"}, {Timeout: -1}, {MaxAnswer: -1}, {User: "u", Password: tidemill.NewSecret("a\n")}, {APIKey: tidemill.NewSecret("a\x00")}} {
		if _, err := configure("http://h", o); err == nil {
			t.Errorf("%+v is not refused", o)
		}
	}
}

func TestProductsAreTold(t *testing.T) {
	for _, c := range []struct {
		name             string
		status           int
		header, body     string
		product, version string
		kind             tidemill.Kind // NoKind: it opens
	}{
		{"OpenSearch", 200, "", greeting, OpenSearch, "2.19.5", 0},
		{"Elasticsearch 8", 200, Elasticsearch, `{"version":{"number":"8.19.1"}}`, Elasticsearch, "8.19.1", 0},
		{"Elasticsearch 7.10", 200, "", `{"version":{"number":"7.10.2"}}`, Elasticsearch, "7.10.2", 0},
		{"one that does not tell", 405, Elasticsearch, `{"error":"no","status":405}`, Elasticsearch, "", 0},
		{"a user that may not ask", 403, "", `{"error":{"type":"security_exception","reason":"no permissions"},"status":403}`, "", "", 0},
		{"a wrong password", 401, "", `Unauthorized`, "", "", tidemill.Credentials},
		{"something else", 200, "", `<html>`, "", "", tidemill.Transient},
		{"something else with JSON", 200, "", `{}`, "", "", tidemill.Transient},
		{"a proxy without a server", 503, "", ``, "", "", tidemill.Transient},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.header != "" {
				w.Header().Set("X-Elastic-Product", c.header)
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		conn, err := Open(t.Context(), s.URL, Options{})
		if (err == nil) != (c.kind == tidemill.NoKind) || err != nil && tidemill.KindOf(err) != c.kind {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && (conn.Product() != c.product || conn.Version() != c.version) {
			t.Errorf("%s: %s %s", c.name, conn.Product(), conn.Version())
		}
		s.Close()
	}
}

func TestAnswersHaveTheirKind(t *testing.T) {
	said := func(exception, reason string) string {
		return fmt.Sprintf(`{"error":{"root_cause":[],"type":%q,"reason":%q,"caused_by":{"type":"x","reason":"deeper"}},"status":1}`, exception, reason)
	}
	for _, c := range []struct {
		name   string
		status int
		body   string
		kind   tidemill.Kind
	}{
		{"a document that does not fit", 400, said("mapper_parsing_exception", "failed to parse"), tidemill.Validation},
		{"a document that does not fit, in Elasticsearch's words", 400, said("document_parsing_exception", "failed to parse"), tidemill.Validation},
		{"a term that is too long", 400, said("illegal_argument_exception", "immense term"), tidemill.Validation},
		{"an alias without an index to write to", 400, said("illegal_argument_exception", "no write index is defined for alias [x]"), tidemill.Transient},
		{"a closed index", 400, said("index_closed_exception", "closed"), tidemill.RateLimit},
		{"no room for shards", 400, said("validation_exception", "this action would add [1] total shards, but this cluster currently has [1000]/[1000] maximum normal shards open"), tidemill.RateLimit},
		{"a full disk", 429, said("cluster_block_exception", "flood-stage"), tidemill.RateLimit},
		{"an index that is read only", 403, said("cluster_block_exception", "FORBIDDEN/8/index write (api)"), tidemill.RateLimit},
		{"a full queue", 429, said("rejected_execution_exception", "queue"), tidemill.RateLimit},
		{"a circuit breaker", 429, said("circuit_breaking_exception", "memory"), tidemill.RateLimit},
		{"no permission", 403, said("security_exception", "no"), tidemill.Credentials},
		{"a wrong password", 401, "Unauthorized", tidemill.Credentials},
		{"a proxy that forbids", 403, "<html>", tidemill.Credentials},
		{"an index that may not be made", 404, said("index_not_found_exception", "no such index"), tidemill.Transient},
		{"shards that are away", 503, said("unavailable_shards_exception", "away"), tidemill.Transient},
		{"no master", 503, said("master_not_discovered_exception", ""), tidemill.Transient},
		{"a fault of the server", 500, said("null_pointer_exception", ""), tidemill.Transient},
		{"a proxy with a bad request", 400, "<html>", tidemill.Transient},
		{"a proxy that waited in vain", 504, "", tidemill.Timeout},
		{"a request that came too slowly", 408, "", tidemill.Timeout},
		{"a proxy that wants less", 429, "", tidemill.RateLimit},
		{"a request that is too large", 413, "", tidemill.Validation},
		{"a method that is not there", 405, `{"error":"Incorrect HTTP method","status":405}`, tidemill.Transient},
		{"a redirect", 301, "", tidemill.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests := 0
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				w.Header().Set("Retry-After", "7")
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
			_, err := open(t, s.URL, Options{}).Bulk(t.Context(), "/_bulk", []byte("{}\n"))
			e, ok := errors.AsType[*tidemill.Error](err)
			if !ok || e.Kind != c.kind || e.After != 7*time.Second || Status(err) != c.status {
				t.Fatalf("%#v: want kind %v", err, c.kind)
			}
			if strings.Contains(c.body, "deeper") && !strings.Contains(err.Error(), "deeper") || strings.Contains(c.body, "Incorrect") && !strings.Contains(err.Error(), "Incorrect") {
				t.Errorf("the cause is not in %v", err)
			}
			if requests != 1 {
				t.Errorf("%d requests, want 1: who repeats is decided elsewhere", requests)
			}
		})
	}
}

func TestLostAnswersAreTransient(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"items\":[")
		c.Close()
	})
	c := open(t, s.URL, Options{})
	if _, err := c.Bulk(t.Context(), "/_bulk", []byte("{}\n")); err == nil || tidemill.KindOf(err) != tidemill.Transient {
		t.Errorf("cut in the middle: %v", err)
	}
	s.Close()
	if _, err := c.Bulk(t.Context(), "/_bulk?secret", []byte("{}\n")); err == nil || tidemill.KindOf(err) != tidemill.Transient || strings.Contains(err.Error(), "secret") {
		t.Errorf("on a closed port: %v", err)
	}
}

func TestARequestThatIsRefusedUnreadIsOver(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	c := open(t, s.URL, Options{})
	for range 5 {
		start := time.Now()
		_, err := c.Bulk(t.Context(), "/_bulk", make([]byte, 32<<20))
		// The connection may be cut before the answer is read.
		if Status(err) != http.StatusRequestEntityTooLarge && tidemill.KindOf(err) != tidemill.Transient || time.Since(start) > 30*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	}
}

func TestNoAnswerInTimeIsATimeout(t *testing.T) {
	over := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			fmt.Fprint(w, "{")
			_ = http.NewResponseController(w).Flush()
		}
		<-over
	})
	defer close(over)
	c := open(t, s.URL, Options{Timeout: 50 * time.Millisecond})
	for _, path := range []string{"/silent", "/slow"} {
		if _, err := c.Do(t.Context(), http.MethodGet, path, nil); tidemill.KindOf(err) != tidemill.Timeout {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/error" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		for range 1000 {
			if _, err := w.Write(bytes.Repeat([]byte("é"), 1000)); err != nil {
				return
			}
		}
	})
	c := open(t, s.URL, Options{MaxAnswer: 10_000})
	if _, err := c.Do(t.Context(), http.MethodGet, "/many", nil); err == nil || !strings.Contains(err.Error(), "10000") {
		t.Errorf("%v", err)
	}
	if _, err := c.Do(t.Context(), http.MethodGet, "/error", nil); err == nil || len(err.Error()) > shownBytes+100 || strings.Contains(err.Error(), "\ufffd") {
		t.Errorf("%v", err)
	}
}

func TestAccountsGoAlongAndNeverShow(t *testing.T) {
	const secret = "hush-hush"
	var authorization string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
		http.Error(w, "who is "+secret+"?", http.StatusBadRequest)
	})
	for _, c := range []struct{ url, want string }{
		{strings.Replace(s.URL, "http://", "http://u:"+secret+"@", 1), "Basic dTpodXNoLWh1c2g="},
		{s.URL + "?api_key=" + secret, "ApiKey " + secret},
		{s.URL, ""},
	} {
		conn := open(t, c.url, Options{})
		_, err := conn.Do(t.Context(), http.MethodGet, "/x", nil)
		if authorization != c.want {
			t.Errorf("%s: sent %q, want %q", c.url, authorization, c.want)
		}
		if text := fmt.Sprintf("%v %+v %s", err, err, conn.Host()); c.want != "" && strings.Contains(text, secret) {
			t.Errorf("shown: %s", text)
		}
	}
}

func TestRequestsArePacked(t *testing.T) {
	var got []byte
	var encoding string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		encoding, got = r.Header.Get("Content-Encoding"), nil
		body := io.Reader(r.Body)
		if encoding == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		got, _ = io.ReadAll(body)
	})
	c := open(t, s.URL, Options{Compression: Gzip})
	for size, want := range map[int]string{10: "", 100_000: "gzip"} {
		body := bytes.Repeat([]byte("x"), size)
		if _, err := c.Bulk(t.Context(), "/_bulk", body); err != nil || encoding != want || !bytes.Equal(got, body) {
			t.Errorf("%d bytes: %q, %d arrived: %v", size, encoding, len(got), err)
		}
	}
}

func TestTLSIsChecked(t *testing.T) {
	s := httptest.NewUnstartedServer(greets(func(w http.ResponseWriter, r *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused handshakes
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	_, err := Open(t.Context(), s.URL, Options{TLS: &tls.Config{RootCAs: roots}})
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
		t.Errorf("with a strange CA: %v", err)
	}
	roots.AddCert(s.Certificate())
	if c := open(t, s.URL, Options{TLS: &tls.Config{RootCAs: roots}}); c.Version() != "2.19.5" {
		t.Errorf("with its CA: version %q", c.Version())
	}
}
