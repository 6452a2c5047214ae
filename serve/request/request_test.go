package request_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
)

func TestAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"nobody forwards", "203.0.113.7:1234", nil, "203.0.113.7"},
		{"not believed from a stranger", "203.0.113.7:1234", []string{"198.51.100.1"}, "203.0.113.7"},
		{"believed from a proxy", "10.1.2.3:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"the last one that is no proxy", "10.1.2.3:80", []string{"6.6.6.6, 198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"garbage ends the way", "10.1.2.3:80", []string{"198.51.100.1, unknown, 10.9.9.9"}, "10.9.9.9"},
		{"a socket", "@", nil, "invalid IP"},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.RemoteAddr = c.peer
		for _, f := range c.forwarded {
			r.Header.Add("X-Forwarded-For", f)
		}
		if got := request.Address(r, trusted).String(); got != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}

func zipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBodies(t *testing.T) {
	bodies := request.NewBodies(request.Limits{Memory: 16 << 20, Ratio: 10, Time: time.Minute})
	const limit = 2 << 20
	for _, c := range []struct {
		name, body, encoding string
		status               int // 0: it is taken
		want                 string
	}{
		{"as it is", "hello", "", 0, "hello"},
		{"inflated", zipped(t, "hello"), "gzip", 0, "hello"},
		{"gzip that does not say it", zipped(t, "hello"), "", 0, "hello"},
		{"as large as may be", strings.Repeat("x", limit), "", 0, strings.Repeat("x", limit)},
		{"a byte more", strings.Repeat("x", limit+1), "", 413, ""},
		{"a byte more when inflated", zipped(t, strings.Repeat("x", limit+1)), "gzip", 413, ""},
		{"ten times its size and more than a MiB", zipped(t, strings.Repeat("x", limit)), "gzip", 413, ""},
		{"another encoding", "hello", "br", 415, ""},
		{"packed twice", zipped(t, zipped(t, "hello")), "gzip", 415, ""},
		{"no gzip", "hello", "gzip", 400, ""},
	} {
		var b request.Body
		r := httptest.NewRequest("POST", "/", strings.NewReader(c.body))
		if c.encoding != "" {
			r.Header.Set("Content-Encoding", c.encoding)
		}
		b.Open(bodies, r)
		p := b.Read(httptest.NewRecorder(), limit)
		if p == nil {
			p = b.Plain(request.Gzip, limit)
		}
		switch {
		case p == nil && (c.status != 0 || string(b.Bytes) != c.want || b.Sent != len(c.body)):
			t.Errorf("%s: %d bytes, %d sent; want %d", c.name, len(b.Bytes), b.Sent, c.status)
		case p != nil && (p.Status != c.status || p.Reason == "" || p.Text == ""):
			t.Errorf("%s: %+v; want %d", c.name, p, c.status)
		}
		b.Close()
		if n := bodies.Out(); n != 0 {
			t.Errorf("%s: %d bytes are out", c.name, n)
		}
	}
}

// projects count how often they are asked, and can be out of reach.
type projects struct {
	project.Projects
	asked int
	err   error
}

func (p *projects) ByKey(ctx context.Context, key project.Hash) (project.Project, error) {
	if p.asked++; p.err != nil {
		return project.Project{}, p.err
	}
	return p.Projects.ByKey(ctx, key)
}

func TestKeyring(t *testing.T) {
	p := &projects{Projects: tableproject.Memory()}
	shop := project.Project{ID: project.ID("shop"), Name: "shop"}
	if err := p.Ensure(t.Context(), shop, project.HashOf(tidemill.NewSecret("k"))); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC)
	keys, err := request.NewKeyring(p, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if o, err := keys.Find(t.Context(), "k"); err != nil || o.Project != shop || o.Tenant != shop.ID.String() {
			t.Fatalf("%+v, %v", o, err)
		}
		for _, unknown := range []string{"other", "", "with space"} {
			if _, err := keys.Find(t.Context(), unknown); !errors.Is(err, project.ErrUnknown) {
				t.Fatalf("key %q: %v", unknown, err)
			}
		}
	}
	if p.asked != 2 {
		t.Errorf("asked %d times for two keys that there can be", p.asked)
	}
	p.err = errors.New("connection refused")
	now = now.Add(request.KeyLife)
	if _, err := keys.Find(t.Context(), "k"); err != nil {
		t.Errorf("a known key in an outage: %v", err)
	}
	now = now.Add(request.KeyInTrouble)
	if _, err := keys.Find(t.Context(), "k"); err == nil || errors.Is(err, project.ErrUnknown) {
		t.Errorf("a known key after a long outage: %v", err)
	}
	p.err = nil
	for i := range request.KeysKept + 10 {
		if _, err := keys.Find(t.Context(), fmt.Sprint("wrong", i)); err == nil {
			t.Fatal(i)
		}
	}
	if n := keys.Unknown(); n != request.KeysKept {
		t.Errorf("%d unknown keys are remembered", n)
	}
}

func TestKey(t *testing.T) {
	for _, c := range []struct{ header, value, want string }{
		{"X-API-Key", " k ", "k"}, {"Authorization", "Bearer k", "k"}, {"Authorization", "bearer  k", "k"}, {"Authorization", "Basic azo=", "k"},
		{"Authorization", "Digest k", ""}, {"Authorization", "k", ""}, {"Authorization", "Basic ???", ""}, {"X-Other", "k", ""},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set(c.header, c.value)
		if got := request.Key(r); got != c.want {
			t.Errorf("%s: %s gives %q; want %q", c.header, c.value, got, c.want)
		}
	}
}
