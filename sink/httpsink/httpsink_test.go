package httpsink_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/sink/httpsink"
	"github.com/tidemill/tidemill/sink/sinktest"
	"github.com/tidemill/tidemill/systems/delivery/partner/partnertest"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func guard(t testing.TB, o httpguard.Options) *httpguard.Guard {
	t.Helper()
	o.Allow = loopback
	g, err := httpguard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// open makes a sink to a server of partnertest.
func open(t testing.TB, s *partnertest.Server, o httpsink.Options) *httpsink.Sink {
	t.Helper()
	g := httpguard.Options{Plain: true}
	if strings.HasPrefix(s.URL, "https") {
		g.Roots = s.Roots()
	}
	if o.URL == "" {
		o.URL = s.URL + "/v1/events"
	}
	if o.Name == "" {
		o.Name = "somebody"
	}
	sink, err := httpsink.New(guard(t, g), o)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func message(id string) *tidemill.Message {
	return &tidemill.Message{ID: id, Payload: []byte(`{"id":"` + id + `"}`)}
}

// recorder is a partner that keeps bodies, and refuses what is marked.
type recorder struct {
	mu   sync.Mutex
	kept [][]byte
	more chan struct{}
}

const invalid = "\x00invalid"

func (r *recorder) take(w http.ResponseWriter, q *http.Request) {
	var b bytes.Buffer
	if _, err := b.ReadFrom(q.Body); err != nil {
		return
	}
	bodies := [][]byte{b.Bytes()}
	if q.URL.Path == "/many" {
		bodies = nil
		if json.Unmarshal(b.Bytes(), &bodies) != nil { // base64 texts
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	for _, body := range bodies {
		if string(body) == invalid {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
	}
	r.mu.Lock()
	r.kept = append(r.kept, bodies...)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *recorder) delivered(n int) [][]byte {
	late := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		kept := append([][]byte(nil), r.kept...)
		r.mu.Unlock()
		if len(kept) >= n {
			return kept
		}
		select {
		case <-r.more:
		case <-late:
			return kept
		}
	}
}

func harness(path string, o httpsink.Options) func(t *testing.T) sinktest.Harness {
	return func(t *testing.T) sinktest.Harness {
		r := &recorder{more: make(chan struct{}, 1)}
		server := partnertest.Plain(t, r.take)
		link := testenv.NewLink(t, server.Addr)
		o := o
		o.URL, o.Timeout = "http://"+link.Addr+path, 10*time.Second
		n := 0
		var mu sync.Mutex
		return sinktest.Harness{
			Sink: open(t, server, o),
			Message: func(p []byte) *tidemill.Message {
				mu.Lock()
				defer mu.Unlock()
				n++
				return &tidemill.Message{ID: fmt.Sprint("m", n), Payload: bytes.Clone(p)}
			},
			Invalid:   func() *tidemill.Message { return &tidemill.Message{ID: "bad", Payload: []byte(invalid)} },
			Delivered: r.delivered, Cut: link.Refuse, Heal: link.Heal, Stick: link.BlackHole,
			Repeats: true,
		}
	}
}

func TestSink(t *testing.T) {
	t.Run("one by one", func(t *testing.T) { sinktest.Run(t, harness("/one", httpsink.Options{})) })
	t.Run("in batches", func(t *testing.T) {
		sinktest.Run(t, harness("/many", httpsink.Options{
			Batch: httpsink.Batch{Items: 100, Head: []byte("["), Between: []byte(","), Tail: []byte("]")},
			Encode: func(m *tidemill.Message, r *httpsink.Request) error {
				b, err := json.Marshal(m.Payload)
				r.Body = append(r.Body, b...)
				return err
			},
		}))
	})
}

// What every answer means, as a page to read.
func TestKinds(t *testing.T) {
	now := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		step partnertest.Step
		kind tidemill.Kind // NoKind: delivered
		safe tidemill.Kind // where the partner is idempotent; NoKind: the same
		wait time.Duration
	}{
		{"200", partnertest.Status(200, "{}"), 0, 0, 0},
		{"201", partnertest.Status(201, ""), 0, 0, 0},
		{"204", partnertest.Status(204, ""), 0, 0, 0},
		{"400", partnertest.Status(400, "bad"), tidemill.Validation, 0, 0},
		{"404", partnertest.Status(404, "bad"), tidemill.Validation, 0, 0},
		{"422", partnertest.Status(422, "bad"), tidemill.Validation, 0, 0},
		{"400 with Retry-After", partnertest.RetryAfter(400, "9"), tidemill.Validation, 0, 0},
		{"401", partnertest.Status(401, "who"), tidemill.Credentials, 0, 0},
		{"403", partnertest.Status(403, "no"), tidemill.Credentials, 0, 0},
		{"408", partnertest.Status(408, ""), tidemill.Timeout, 0, 0},
		{"429", partnertest.Status(429, ""), tidemill.RateLimit, 0, 0},
		{"429 in seconds", partnertest.RetryAfter(429, "17"), tidemill.RateLimit, 0, 17 * time.Second},
		{"429 at a date", partnertest.RetryAfter(429, now.Add(time.Minute).Format(http.TimeFormat)), tidemill.RateLimit, 0, time.Minute},
		{"429 at a date that has passed", partnertest.RetryAfter(429, now.Add(-time.Minute).Format(http.TimeFormat)), tidemill.RateLimit, 0, 0},
		{"429 negative", partnertest.RetryAfter(429, "-5"), tidemill.RateLimit, 0, 0},
		{"429 garbage", partnertest.RetryAfter(429, "soon"), tidemill.RateLimit, 0, 0},
		{"429 for thirty years", partnertest.RetryAfter(429, "1000000000"), tidemill.RateLimit, 0, 15 * time.Minute},
		{"429 for 1e9", partnertest.RetryAfter(429, "1e9"), tidemill.RateLimit, 0, 15 * time.Minute},
		{"500", partnertest.Status(500, ""), tidemill.Partner, 0, 0},
		{"502", partnertest.Status(502, ""), tidemill.Partner, 0, 0},
		{"503", partnertest.Status(503, ""), tidemill.Partner, 0, 0},
		{"503 in seconds", partnertest.RetryAfter(503, "3"), tidemill.Partner, 0, 3 * time.Second},
		{"409", partnertest.Status(409, ""), tidemill.Partner, 0, 0},
		{"413", partnertest.Status(413, ""), tidemill.Partner, 0, 0},
		{"418", partnertest.Status(418, ""), tidemill.Partner, 0, 0},
		{"redirect", partnertest.Redirect(), tidemill.Partner, 0, 0},
		{"garbage", partnertest.Garbage(), tidemill.Unknown, tidemill.Partner, 0},
		{"no answer in time", partnertest.Hold(), tidemill.Unknown, tidemill.Timeout, 0},
		{"reset before the answer", partnertest.ResetBeforeAnswer(), tidemill.Unknown, tidemill.Partner, 0},
		{"done, and the answer lost", partnertest.LoseAnswer(), tidemill.Unknown, tidemill.Partner, 0},
		{"reset in the header", partnertest.ResetInHeader(), tidemill.Unknown, tidemill.Partner, 0},
		{"reset in the body of 200", partnertest.ResetInBody(), 0, 0, 0}, // the status is known
		{"a header of 1 MB", partnertest.BigHeader(), tidemill.Unknown, tidemill.Partner, 0},
		{"very many 1xx", partnertest.Informing(), tidemill.Unknown, tidemill.Partner, 0},
		{"an endless body", partnertest.Endless(), 0, 0, 0},
		{"10 GB", partnertest.Huge(200), 0, 0, 0},
		{"10 GB with 500", partnertest.Huge(500), tidemill.Partner, 0, 0},
		{"a gzip bomb", partnertest.GzipBomb(), 0, 0, 0},
	} {
		for _, idempotent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, idempotent %v", c.name, idempotent), func(t *testing.T) {
				server := partnertest.New(t, ok)
				server.Script(c.step)
				var attempts []httpsink.Attempt
				timeout := 10 * time.Second
				if c.name == "no answer in time" {
					timeout = 2 * time.Second // in which the request has come, on a busy machine too
				}
				sink := open(t, server, httpsink.Options{Timeout: timeout, Idempotent: idempotent, Now: func() time.Time { return now },
					Observe: func(_ context.Context, _ []*tidemill.Message, a httpsink.Attempt) { attempts = append(attempts, a) }})
				err := sink.Write(t.Context(), []*tidemill.Message{message("1")})
				want := c.kind
				if idempotent && c.safe != tidemill.NoKind {
					want = c.safe
				}
				if want == tidemill.NoKind {
					if err != nil {
						t.Fatalf("%v, want it delivered", err)
					}
				} else {
					e, ok := errors.AsType[*tidemill.Error](err)
					if !ok || e.Kind != want || e.After != c.wait {
						t.Fatalf("%v (%#v), want %v after %v", err, e, want, c.wait)
					}
					if _, ok := errors.AsType[*httpsink.Refusal](err); !ok {
						t.Errorf("%#v has no Refusal", err)
					}
				}
				if got := len(server.Requests()); got != 1 {
					t.Errorf("%d requests: the sink tries nothing again", got)
				}
				if len(attempts) != 1 || (attempts[0].Err == nil) != (err == nil) || len(attempts[0].Body) > httpsink.MaxExcerpt {
					t.Errorf("observed %+v", attempts)
				}
				sink = open(t, server, httpsink.Options{Timeout: 10 * time.Second})
				if err := sink.Write(t.Context(), []*tidemill.Message{message("2")}); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		}
	}
}

func kindOf(t *testing.T, err error, want tidemill.Kind) *httpsink.Refusal {
	t.Helper()
	if got := tidemill.KindOf(err); err == nil || got != want {
		t.Fatalf("%v is of kind %v, want %v", err, got, want)
	}
	r, _ := errors.AsType[*httpsink.Refusal](err)
	if r == nil {
		t.Fatalf("%#v has no Refusal", err)
	}
	return r
}

func TestNothingWasSent(t *testing.T) {
	gone := partnertest.New(t, ok)
	sink := open(t, gone, httpsink.Options{Timeout: time.Second})
	gone.Close()
	r := kindOf(t, sink.Write(t.Context(), []*tidemill.Message{message("1")}), tidemill.Partner)
	if !strings.Contains(r.Error(), "nothing was sent") || r.Status != 0 {
		t.Errorf("refused: %v", r)
	}

	silent := partnertest.New(t, ok)
	link := testenv.NewLink(t, silent.Addr)
	link.BlackHole()
	sink = open(t, silent, httpsink.Options{URL: "https://" + link.Addr, Timeout: 100 * time.Millisecond})
	r = kindOf(t, sink.Write(t.Context(), []*tidemill.Message{message("1")}), tidemill.Timeout) // in the handshake
	if !strings.Contains(r.Error(), "nothing was sent") {
		t.Errorf("timed out: %v", r)
	}
}

func TestBlockedTargetsAreInvalid(t *testing.T) {
	server := partnertest.New(t, ok)
	g, err := httpguard.New(httpguard.Options{Roots: server.Roots()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	attempts := 0
	sink, err := httpsink.New(g, httpsink.Options{URL: server.URL, Batch: httpsink.Batch{Items: 10, Between: []byte(",")},
		Observe: func(context.Context, []*tidemill.Message, httpsink.Attempt) { attempts++ }})
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range [][]*tidemill.Message{{message("1")}, {message("1"), message("2")}} {
		err := sink.Write(t.Context(), batch)
		if p, ok := errors.AsType[*tidemill.Partial](err); ok {
			err = p.Failed[1].Err
		}
		if r := kindOf(t, err, tidemill.Validation); r.Reason != "blocked_target" {
			t.Errorf("reason %q", r.Reason)
		}
	}
	if server.Connections() != 0 {
		t.Error("the canary was reached")
	}
	if attempts != 2 {
		t.Errorf("%d attempts, want one for each batch: no part of it can be sent", attempts)
	}
}

// The answer of the first request on a connection without TLS is lost as any other is.
func TestAPlainConnectionThatBreaks(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	}))
	defer server.Close()
	sink, err := httpsink.New(guard(t, httpguard.Options{Plain: true}), httpsink.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	kindOf(t, sink.Write(t.Context(), []*tidemill.Message{message("1")}), tidemill.Unknown)
}

// A connection that the server closed while it was idle is no lost answer.
func TestIdleConnectionsThatWent(t *testing.T) {
	server := partnertest.New(t, ok)
	link := testenv.NewLink(t, server.Addr)
	sink := open(t, server, httpsink.Options{URL: "https://" + link.Addr})
	var err error
	for i := range 5 {
		if err = sink.Write(t.Context(), []*tidemill.Message{message(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
		link.Refuse()
		link.Heal()
		for range 1000 { // until the close is noticed: a request in that moment may be lost
			err = sink.Write(t.Context(), []*tidemill.Message{message("again")})
			if err == nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Go's own client repeats requests that have an idempotency key, or are GET, when it finds
// the answer lost on a connection that was used before.
func TestNothingIsRepeatedByTheClient(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		for _, header := range []string{"", "X-Idempotency-Key", "idempotency-key", "Event-Key"} {
			server := partnertest.New(t, ok)
			o := httpsink.Options{Method: method, KeyHeader: header}
			if method == http.MethodGet {
				o.Encode = func(*tidemill.Message, *httpsink.Request) error { return nil }
			}
			sink := open(t, server, o)
			server.Script(partnertest.Pass(), partnertest.LoseAnswer())
			if err := sink.Write(t.Context(), []*tidemill.Message{message("1")}); err != nil {
				t.Fatal(err)
			}
			kindOf(t, sink.Write(t.Context(), []*tidemill.Message{message("2")}), tidemill.Unknown)
			if n := len(server.Requests()); n != 2 || server.Connections() != 1 {
				t.Errorf("%s, key in %q: %d requests on %d connections, want 2 on 1", method, header, n, server.Connections())
			}
			name := header
			if name == "" {
				name = "Idempotency-Key"
			}
			if got := server.Requests()[1].Header.Get(name); got != "2" {
				t.Errorf("%s: key %q", name, got)
			}
		}
	}
}

func TestTheEndOfAContextIsNoKind(t *testing.T) {
	server := partnertest.New(t, ok)
	server.Script(partnertest.Hold())
	sink := open(t, server, httpsink.Options{Timeout: time.Minute})
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
	if err := sink.Write(ctx, []*tidemill.Message{message("1")}); !errors.Is(err, stop) {
		t.Errorf("Write returned %v", err)
	}
	if err := sink.Write(t.Context(), []*tidemill.Message{message("1")}); err != nil { // from here on there is a connection
		t.Fatal(err)
	}
	server.Script(partnertest.Hold())
	late, done := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer done()
	kindOf(t, sink.Write(late, []*tidemill.Message{message("1")}), tidemill.Unknown) // the caller's deadline, before ours
}

func TestNewRefusesNonsense(t *testing.T) {
	g := guard(t, httpguard.Options{})
	for name, o := range map[string]httpsink.Options{
		"no URL":               {},
		"a path":               {URL: "/x"},
		"user information":     {URL: "https://user:secret@example.com"},
		"a negative time":      {URL: "https://example.com", Timeout: -1},
		"a negative batch":     {URL: "https://example.com", Batch: httpsink.Batch{Items: -1}},
		"a line in a header":   {URL: "https://example.com", Header: map[string]string{"A": "secret\r\nX: y"}},
		"a name with a colon":  {URL: "https://example.com", Header: map[string]string{"A:b": ""}},
		"a header of the line": {URL: "https://example.com", Header: map[string]string{"transfer-encoding": "chunked"}},
		"a bad key header":     {URL: "https://example.com", KeyHeader: "a b"},
	} {
		_, err := httpsink.New(g, o)
		if err == nil {
			t.Errorf("%s is taken", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v shows a secret", err)
		}
	}
	if _, err := httpsink.New(nil, httpsink.Options{URL: "https://example.com"}); err == nil {
		t.Error("no RoundTripper is taken")
	}
}
