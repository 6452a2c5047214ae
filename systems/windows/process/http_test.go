package process_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// service answers requests as do says, and remembers their bodies.
type service struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	keys   []string
}

func newService(t *testing.T, do func(n int, body string) (status int, answer string)) *service {
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.bodies, s.keys = append(s.bodies, string(body)), append(s.keys, r.Header.Get("X-Key"))
		n := len(s.bodies)
		s.mu.Unlock()
		status, answer := do(n, string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.bodies...)
}

func guard(t *testing.T) *httpguard.Guard {
	t.Helper()
	g, err := httpguard.New(httpguard.Options{Plain: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func TestHTTP(t *testing.T) {
	s := newService(t, func(int, string) (int, string) {
		return 200, `{"records":[{"index":1,"set":{"sentiment":0.50,"avgTone":7,"x":{"a":[1]}}},{"index":0,"skip":"spam"},{"index":2,"dead":"no text"}]}`
	})
	h := process.HTTP{URL: s.URL, Header: map[string]tidemill.Secret{"X-Key": tidemill.NewSecret("k")}, Fields: []string{"sourceUrl", "mentionIdentifier", "globalEventId"}}
	step := made(t)(h.New(guard(t)))
	items := page(t, chain(t, step).Begin(`b"`), ev(1, ""), ev(2, `"avgTone":1,"sourceUrl":"u"`), me(3, ""), me(4, ""))
	if got := fates(items); got != "1-spam 2 3!business 4" || items[2].Why != "no text" {
		t.Errorf("%s, %s", got, items[2].Why)
	}
	if out := string(items[1].Record.AppendOut(nil)); !strings.Contains(out, `"avgTone":7`) || !strings.Contains(out, `"sentiment":0.50,"x":{"a":[1]}}`) {
		t.Errorf("goes out as %s", out)
	}
	const want = `{"batch":"b\"","records":[{"index":0,"kind":"event","record":{"globalEventId":1,"sourceUrl":null}},{"index":1,"kind":"event","record":{"globalEventId":2,"sourceUrl":"u"}},` +
		`{"index":2,"kind":"mention","record":{"globalEventId":3,"mentionIdentifier":null}},{"index":3,"kind":"mention","record":{"globalEventId":4,"mentionIdentifier":null}}]}`
	if got := s.asked(); len(got) != 1 || got[0] != want || s.keys[0] != "k" || step.Processor.Name() != "127.0.0.1" {
		t.Errorf("asked %s", got)
	}
}

func TestHTTPSendsBatches(t *testing.T) {
	var sent atomic.Int64
	s := newService(t, func(_ int, body string) (int, string) {
		var all struct {
			Records []struct{ Record map[string]any }
		}
		if err := json.Unmarshal([]byte(body), &all); err != nil || len(all.Records) > 7 || len(body) > 20_000 {
			t.Errorf("%d records, %d bytes, %v", len(all.Records), len(body), err)
		}
		sent.Add(int64(len(all.Records)))
		return 200, `{"records":[{"index":0,"skip":"first"}]}`
	})
	for _, parallel := range []int{0, 4} {
		sent.Store(0)
		h := process.HTTP{URL: s.URL, Items: 7, Bytes: 20_000, Parallel: parallel}
		c := chain(t, made(t)(h.New(guard(t))))
		var items []process.Item
		for i := range 30 {
			items = append(items, ev(i, ""))
		}
		items[20] = ev(20, `"sourceUrl":"`+strings.Repeat("x", 20_000)+`"`)
		page(t, c.Begin("b"), items...)
		if sent.Load() != 29 || c.Stats()[1].Failed != 1 || c.Stats()[1].Skipped != 5 {
			t.Errorf("%d were sent, %+v", sent.Load(), c.Stats()[1])
		}
	}
}

func TestHTTPFailures(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		status       int
		want         tidemill.Kind
	}{
		{"down", "", 503, tidemill.Partner},
		{"too fast", "", 429, tidemill.RateLimit},
		{"refused", "", 400, tidemill.Validation},
		{"who are you", "", 401, tidemill.Credentials},
		{"moved", "", 302, tidemill.Partner},
		{"garbage", "<html>", 200, tidemill.Partner},
		{"nothing", "null", 200, tidemill.Partner},
		{"something else", `{"error":"try later"}`, 200, tidemill.Partner},
		{"another's record", `{"records":[{"index":9}]}`, 200, tidemill.Partner},
		{"no index", `{"records":[{}]}`, 200, tidemill.Partner},
		{"twice", `{"records":[{"index":0},{"index":0}]}`, 200, tidemill.Partner},
		{"a value that does not fit", `{"records":[{"index":0,"set":{"more":1,"avgTone":"x"}}]}`, 200, tidemill.Partner},
		{"the id", `{"records":[{"index":0,"set":{"globalEventId":5}}]}`, 200, tidemill.Partner},
		{"long", `{"records":[` + strings.Repeat(" ", 2000) + `]}`, 200, tidemill.Partner},
	} {
		s := newService(t, func(int, string) (int, string) { return c.status, c.answer })
		step := made(t)(process.HTTP{URL: s.URL, Answer: 1000}.New(guard(t)))
		step.OnError = process.Dead
		items := page(t, chain(t, step).Begin("b"), ev(1, ""), ev(2, ""))
		if items[0].Fault != c.want || items[1].Fault != c.want || strings.Contains(string(items[0].Record.AppendOut(nil)), "more") {
			t.Errorf("%s: %s, %s", c.name, fates(items), items[0].Why)
		}
	}
}

func TestHTTPTriesAgain(t *testing.T) {
	s := newService(t, func(n int, _ string) (int, string) {
		if n < 3 {
			return 500, ""
		}
		return 200, `{"records":[{"index":0,"set":{"ok":true}}]}`
	})
	h := process.HTTP{URL: s.URL, Retry: policy.Retry{Tries: 2, Base: time.Millisecond}}
	items := page(t, chain(t, made(t)(h.New(guard(t)))).Begin("b"), ev(1, ""))
	if out := string(items[0].Record.AppendOut(nil)); !strings.Contains(out, `"ok":true`) || len(s.asked()) != 3 {
		t.Errorf("asked %d times, %s", len(s.asked()), out)
	}
}

func TestHTTPLeavesABrokenServiceAlone(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	s := newService(t, func(int, string) (int, string) {
		if broken.Load() {
			return 500, ""
		}
		return 200, `{"records":[]}`
	})
	now := time.Unix(1_700_000_000, 0)
	h := process.HTTP{URL: s.URL, Items: 1, Breaker: policy.Breaker{Fails: 3, Open: time.Minute, Jitter: -1}, Now: func() time.Time { return now }}
	c := chain(t, made(t)(h.New(guard(t))))
	var items []process.Item
	for i := range 10 {
		items = append(items, ev(i, ""))
	}
	page(t, c.Begin("b"), items...)
	if len(s.asked()) != 3 || c.Stats()[1].Failed != 10 {
		t.Fatalf("asked %d times, %+v", len(s.asked()), c.Stats()[1])
	}
	page(t, c.Begin("other"), items...)
	if len(s.asked()) != 3 {
		t.Fatalf("asked %d times: it is left alone by all batches", len(s.asked()))
	}
	step := made(t)(h.New(guard(t)))
	step.OnError = process.Retry
	retry := chain(t, step)
	for i, alone := range []bool{false, true} { // five are asked without success, then none
		err := retry.Begin("b").Page(t.Context(), slices.Clone(items))
		failed, ok := errors.AsType[*process.Failed](err)
		if !ok {
			t.Fatalf("page %d: %v", i, err)
		}
		after, is := failed.Alone()
		if is != alone || alone && after != time.Minute {
			t.Errorf("page %d: left alone is %v for %v, want %v", i, is, after, alone)
		}
	}
	if n := len(s.asked()); n != 6 {
		t.Fatalf("asked %d times", n)
	}
	broken.Store(false)
	now = now.Add(2 * time.Minute)
	page(t, c.Begin("b"), items...)
	if len(s.asked()) != 16 || c.Stats()[1].Failed != 20 {
		t.Fatalf("asked %d times, %+v", len(s.asked()), c.Stats()[1])
	}
}

func TestHTTPIsChecked(t *testing.T) {
	strict, err := httpguard.New(httpguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	for name, err := range map[string]error{
		"no guard":          second(process.HTTP{URL: "https://example.com"}.New(nil)),
		"no URL":            second(process.HTTP{}.New(strict)),
		"plain":             second(process.HTTP{URL: "http://example.com"}.New(strict)),
		"loopback":          second(process.HTTP{URL: "https://127.0.0.1"}.New(strict)),
		"a negative number": second(process.HTTP{URL: "https://example.com", Items: -1}.New(strict)),
		"tries for ever":    second(process.HTTP{URL: "https://example.com", Retry: policy.Retry{Tries: -1}}.New(strict)),
		"no such value":     second(process.HTTP{URL: "https://example.com", Fields: []string{"x"}}.New(strict)),
		"many at once":      second(process.HTTP{URL: "https://example.com", Parallel: 65}.New(strict)),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	secret := process.HTTP{Header: map[string]tidemill.Secret{"X": tidemill.NewSecret("canary")}}
	if s := fmt.Sprintf("%v %+v %#v", secret, secret, secret); strings.Contains(s, "canary") {
		t.Errorf("a secret prints: %s", s)
	}
}

func second[T any](_ T, err error) error { return err }

func FuzzAnswer(f *testing.F) {
	f.Add(`{"records":[{"index":0,"set":{"sentiment":0.5}}]}`)
	f.Add(`{"records":[{"index":1,"skip":"a","dead":"b"}]}`)
	f.Fuzz(func(t *testing.T, answer string) {
		items := []*process.Item{{Kind: record.Event}, {Kind: record.Mention}}
		for _, it := range items {
			if err := record.Decode(it.Kind, []byte(`{"globalEventId":1}`), &it.Record); err != nil {
				t.Fatal(err)
			}
		}
		_ = process.Answered([]byte(answer), items)
		for _, it := range items {
			if out := it.Record.AppendOut(nil); !json.Valid(out) {
				t.Errorf("%q makes %s", answer, out)
			}
		}
	})
}
