package shrink_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/shrink"
)

var long = strings.Repeat("a line that is told again and again\n", 100)

// serving is a server whose answers are shrunk.
func serving(t *testing.T, do http.HandlerFunc) (ask func(method string, headers ...string) *http.Response) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, end := shrink.Answer(w, r)
		do(w, r)
		end()
	}))
	t.Cleanup(s.Close)
	return func(method string, headers ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip, deflate, br")
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
}

// read is what an answer says, and whether it came gzipped.
func read(t *testing.T, resp *http.Response) (said string, zipped bool, err error) {
	t.Helper()
	var in io.Reader = resp.Body
	if zipped = resp.Header.Get("Content-Encoding") == "gzip"; zipped {
		if in, err = gzip.NewReader(in); err != nil {
			return "", true, err
		}
	}
	b, err := io.ReadAll(in)
	return string(b), zipped, err
}

func TestAnAnswerIsZippedWhereThatHelps(t *testing.T) {
	body, kind, status := long, "text/html; charset=utf-8", http.StatusOK
	ask := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("ETag", `"one"`)
		w.WriteHeader(status)
		for part := range strings.SplitAfterSeq(body, "\n") {
			_, _ = io.WriteString(w, part)
		}
	})
	check := func(name string, want bool, method string, headers ...string) {
		t.Helper()
		resp := ask(method, headers...)
		said, zipped, err := read(t, resp)
		if err != nil || zipped != want || said != body || resp.StatusCode != status || resp.Header.Get("ETag") != `"one"` || resp.Header.Get("Content-Type") != kind {
			t.Errorf("%s: zipped %t, want %t; %d, %v, %d bytes, %v", name, zipped, want, resp.StatusCode, resp.Header, len(said), err)
		}
		if vary := resp.Header.Get("Vary"); (vary == "Accept-Encoding") != (method == http.MethodGet) {
			t.Errorf("%s: it varies by %q", name, vary)
		}
	}
	check("a page", true, "GET")
	check("one of a browser's own pages", true, "GET", "Sec-Fetch-Site", "same-origin")
	check("one that another site asks for", false, "GET", "Sec-Fetch-Site", "cross-site")
	check("one that a neighbour asks for", false, "GET", "Sec-Fetch-Site", "same-site")
	check("a change", false, "POST")
	check("to a client that takes none", false, "GET", "Accept-Encoding", "identity")
	check("to a client that refuses it", false, "GET", "Accept-Encoding", "br, gzip;q=0")
	check("to a client that likes it less", true, "GET", "Accept-Encoding", "br;q=1, gzip;q=0.5")
	check("to a client that takes all", true, "GET", "Accept-Encoding", "*")
	status = http.StatusNotFound
	check("a problem", true, "GET")
	body = "short"
	check("a short one", false, "GET")
	body, kind = long, "application/octet-stream"
	check("a file", false, "GET")

	body, kind, status = long, "application/json", http.StatusOK
	whole, head := ask("GET"), ask("HEAD")
	for _, name := range []string{"Content-Encoding", "Vary", "ETag", "Content-Type", "Content-Length"} {
		if got, want := head.Header.Get(name), whole.Header.Get(name); got != want {
			t.Errorf("HEAD says %s: %q, and GET %q", name, got, want)
		}
	}
}

func TestWhatFlushesGoesOn(t *testing.T) {
	more := make(chan bool)
	first := "{}\n"
	ask := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, first)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-more
		_, _ = io.WriteString(w, long)
	})
	for _, one := range []struct {
		first  string
		zipped bool
	}{{"{}\n", false}, {long, true}} {
		first = one.first
		resp := ask("GET")
		if got := resp.Header.Get("Content-Encoding") == "gzip"; got != one.zipped {
			t.Errorf("it is zipped: %t, want %t", got, one.zipped)
		}
		in := io.Reader(resp.Body)
		if one.zipped {
			var err error
			if in, err = gzip.NewReader(in); err != nil {
				t.Fatal(err)
			}
		}
		begun := make([]byte, len(first))
		if _, err := io.ReadFull(in, begun); err != nil || string(begun) != first { // before the rest is written
			t.Errorf("the first part is %.20q, %v", begun, err)
		}
		more <- true
		if rest, err := io.ReadAll(in); err != nil || string(rest) != long {
			t.Errorf("the rest is %d bytes, %v", len(rest), err)
		}
	}
}

func TestWhatIsCutOffIsSeenSo(t *testing.T) {
	ask := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, long+"last\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	if said, zipped, err := read(t, ask("GET")); err == nil || !zipped || said != long+"last\n" {
		t.Errorf("read are %d bytes, %v", len(said), err)
	}
}

func TestAnAnswerWithoutABodyHasNone(t *testing.T) {
	ask := serving(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	if resp := ask("GET"); resp.StatusCode != http.StatusNotModified || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("it is %d, %v", resp.StatusCode, resp.Header)
	}
}

func BenchmarkPage(b *testing.B) {
	page := []byte(strings.Repeat(`<tr><td><a class="id" href="/console/queues/q/job?id=0190f3c2-0000-7000-8000-000000000009&amp;tenant=owner-7">0190f3c2</a></td><td>waiting</td><td><time datetime="2026-11-21T10:00:00Z">3 min</time></td></tr>`+"\n", 200))
	for _, way := range []string{"identity", "gzip"} {
		b.Run(way, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Accept-Encoding", way)
			for b.Loop() {
				w, end := shrink.Answer(&discard{http.Header{"Content-Type": {"text/html"}}}, r)
				_, _ = w.Write(page)
				end()
			}
		})
	}
}

type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
