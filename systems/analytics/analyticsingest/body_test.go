package analyticsingest

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemill/tidemill/serve/request"
)

func packed(t testing.TB, s string, open func(io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := open(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func packers(t testing.TB) map[string]func(string) string {
	return map[string]func(string) string{
		"gzip": gzipped,
		"br": func(s string) string {
			return packed(t, s, func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) })
		},
		"deflate": func(s string) string {
			return packed(t, s, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
		},
		"zstd": func(s string) string {
			return packed(t, s, func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z })
		},
	}
}

func TestEncodingsOfTheNewPath(t *testing.T) {
	ok := `{"results":{"` + id1 + `":{"result":"ok"}}}`
	for name, pack := range packers(t) {
		t.Run(name, func(t *testing.T) {
			d := newTestIngest(t)
			headers := with(v1, "Content-Encoding", name)
			for range 2 { // decompressors are used again, after errors too
				want(t, d.send("/i/v1/analytics/events", pack(posted(ph)), headers), 200, ok)
				whole := pack(posted(ph))
				want(t, d.send("/i/v1/analytics/events", whole[:len(whole)/2], headers), 400, "*")
				want(t, d.send("/i/v1/analytics/events", whole+"garbage", headers), 400, "*")
				want(t, d.send("/i/v1/analytics/events", "not packed at all", headers), 400, "*")
				want(t, d.send("/i/v1/analytics/events", "", headers), 400, "*")
			}
			if len(d.intake.jobs) != 1 {
				t.Errorf("%d jobs; want 1", len(d.intake.jobs))
			}
		})
	}
	t.Run("bare deflate", func(t *testing.T) {
		d := newTestIngest(t)
		bare := packed(t, posted(ph), func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 9); return f })
		want(t, d.send("/i/v1/analytics/events", bare, with(v1, "Content-Encoding", "deflate")), 200, ok)
	})
	for _, enc := range []string{"gzip, gzip", "br, gzip", "lzma", "compress"} {
		want(t, newTestIngest(t).send("/i/v1/analytics/events", posted(ph), with(v1, "Content-Encoding", enc)), 415, "*")
	}
}

func TestGzip(t *testing.T) {
	body := posted(ph)
	half := len(body) / 2
	pieces := func(n int) (out string) { // the body in n members
		for i := range n {
			out += gzipped(body[len(body)*i/n : len(body)*(i+1)/n])
		}
		return out
	}
	corrupt := []byte(gzipped(body))
	corrupt[len(corrupt)-6] ^= 1 // its checksum
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"one member", gzipped(body), 200},
		{"two members", gzipped(body[:half]) + gzipped(body[half:]), 200},
		{"an empty member before", gzipped("") + gzipped(body), 200},
		{"as many members as may be", pieces(request.MaxMembers), 200},
		{"one member more", pieces(request.MaxMembers + 1), 400},
		{"100,000 empty members", gzipped(body) + strings.Repeat(gzipped(""), 100_000), 400},
		{"cut", gzipped(body)[:40], 400},
		{"cut in the trailer", gzipped(body)[:len(gzipped(body))-1], 400},
		{"only a header", gzipped(body)[:10], 400},
		{"a wrong checksum", string(corrupt), 400},
		{"garbage behind", gzipped(body) + "garbage", 400},
		{"zeros behind", gzipped(body) + "\x00\x00\x00", 400},
		{"packed twice", gzipped(gzipped(body)), 415},
	} {
		for _, headers := range []header{nil, {"Content-Encoding": "gzip"}, {"Content-Type": "text/plain"}} {
			d := newTestIngest(t)
			if w := d.send("/batch/", c.body, headers); w.Code != c.status {
				t.Errorf("%s, %v: got %d %s; want %d", c.name, headers, w.Code, w.Body, c.status)
			}
			if c.status != 200 && len(d.intake.jobs) > 0 {
				t.Errorf("%s: refused, but %d jobs", c.name, len(d.intake.jobs))
			}
		}
	}
}

// zeros is a body of n bytes that nothing would take.
type zeros int64

func (z *zeros) Read(b []byte) (int, error) {
	if *z == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), int64(*z))
	clear(b[:n])
	*z -= zeros(n)
	return int(n), nil
}

func TestBombsAreRefusedInLittleMemory(t *testing.T) {
	for name, open := range map[string]func(io.Writer) io.WriteCloser{
		"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, 5) },
		"zstd":    func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
	} {
		t.Run(name, func(t *testing.T) {
			var bomb bytes.Buffer
			w := open(&bomb)
			z := zeros(12 << 20)
			if _, err := io.Copy(w, &z); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			d := newTestIngest(t)
			d.send("/i/v1/analytics/events", "", v1) // what is made once
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			got := d.send("/i/v1/analytics/events", bomb.String(), with(v1, "Content-Encoding", name))
			runtime.ReadMemStats(&after)
			if got.Code != 413 {
				t.Errorf("got %d %s; want 413", got.Code, got.Body)
			}
			if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 16<<20 {
				t.Errorf("%d bytes of bomb took %d bytes of memory; at most 16 MB are allowed", bomb.Len(), grown)
			}
			if out := d.Bodies.Out(); out != 0 {
				t.Errorf("%d bytes were not given back", out)
			}
		})
	}
}

func TestMemoryIsGivenBack(t *testing.T) {
	d := newTestIngest(t, func(o *Options) { o.Limits.PostHogSingle = 100 << 10 })
	big := posted(`{"event":"e","distinct_id":"u","x":"` + strings.Repeat("x", 300<<10) + `"}`)
	form := "data=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(big)))
	for name, w := range map[string]*httptest.ResponseRecorder{
		"plain":    d.send("/batch/", big),
		"gzip":     d.send("/batch/", gzipped(big)),
		"form":     d.send("/batch/", form, header{"Content-Type": "application/x-www-form-urlencoded"}),
		"no JSON":  d.send("/batch/", big[:len(big)-1]),
		"too big":  d.send("/e/", big),
		"garbage":  d.send("/batch/", strings.Repeat("?", 100_000)),
		"cut gzip": d.send("/batch/", gzipped(big)[:300]),
		"binary":   d.send("/v1/cloudevents", big, header{"X-Api-Key": goodKey, "Content-Type": "text/plain", "ce-id": "1", "ce-source": "/", "ce-type": "t", "ce-specversion": "1.0", "ce-subject": "u"}),
	} {
		if out := d.Bodies.Out(); out != 0 {
			t.Fatalf("%s (%d): %d bytes are out after all answers", name, w.Code, out)
		}
	}
}

func TestMemoryOfAllRequestsIsBounded(t *testing.T) {
	d := newTestIngest(t, func(o *Options) {
		o.Limits.PostHog, o.Limits.Native, o.Limits.Events, o.Limits.Memory = 1<<20, 1<<20, 100, 10<<20
	})
	var others request.Body
	others.Open(d.Bodies, httptest.NewRequest("POST", "/", nil))
	others.Vouch()
	if !others.Reserve(10 << 20) {
		t.Fatal("the whole of the memory cannot be had")
	}
	w := d.send("/batch/", posted(`{"event":"e","distinct_id":"u","x":"`+strings.Repeat("x", 100_000)+`"}`))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %s; want 503 and Retry-After", w.Code, w.Body)
	}
	want(t, d.send("/batch/", posted(ph)), 200, `{"status":"Ok"}`) // small ones always have room
	many := `{"api_key":"` + goodKey + `","batch":[` + strings.TrimSuffix(strings.Repeat(`{"event":"e","distinct_id":"u"},`, 99), ",") + `]}`
	if w := d.send("/batch/", many); w.Code != 503 {
		t.Errorf("99 events in %d bytes: got %d %s; want 503, they take more memory than their bytes", len(many), w.Code, w.Body)
	}
	others.Close()
	want(t, d.send("/batch/", posted(`{"event":"e","distinct_id":"u","x":"`+strings.Repeat("x", 100_000)+`"}`)), 200, `{"status":"Ok"}`)
	want(t, d.send("/batch/", many), 200, `{"status":"Ok"}`)
	if out := d.Bodies.Out(); out != 0 {
		t.Errorf("%d bytes are out after all answers", out)
	}
}

func TestLargeBodies(t *testing.T) {
	const limit = 1 << 20
	exact := func(n int) string {
		head, tail := `{"api_key":"`+goodKey+`","batch":[{"event":"e","distinct_id":"u","x":"`, `"}]}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	d := newTestIngest(t, func(o *Options) { o.Limits.PostHog = limit })
	want(t, d.send("/batch/", exact(limit)), 200, "*")
	want(t, d.send("/batch/", exact(limit+1)), 413, "*")
	want(t, d.send("/batch/", gzipped(exact(limit))), 200, "*")
	want(t, d.send("/batch/", gzipped(exact(limit+1))), 413, "*")
	want(t, d.send("/v1/batch", strings.Repeat("x", 10<<20), apiKey), 413, "*")

	declared := httptest.NewRequest(http.MethodPost, "/batch/", panics{})
	declared.ContentLength = 1 << 30
	w := httptest.NewRecorder()
	d.ServeHTTP(w, declared)
	want(t, w, 413, "*")

	endless := zeros(1 << 62)
	chunked := httptest.NewRequest(http.MethodPost, "/batch/", &endless)
	chunked.ContentLength = -1
	w = httptest.NewRecorder()
	d.ServeHTTP(w, chunked)
	want(t, w, 413, "*")
	if read := 1<<62 - int64(endless); read > 2*limit {
		t.Errorf("%d bytes of a body without end were read", read)
	}

	tiny := `{"api_key":"` + goodKey + `","batch":[` + strings.Repeat("{},", 300_000) + `{}]}`
	want(t, newTestIngest(t).send("/batch/", tiny), 413, "*")
}

// panics is a body that nobody may read.
type panics struct{}

func (panics) Read([]byte) (int, error) { panic("the body was read") }

func TestTheBodyIsNotReadWithAWrongKeyInTheHeader(t *testing.T) {
	for path, h := range map[string]header{"/v1/batch": {"X-Api-Key": "wrong"}, "/v1/track": badUser,
		"/i/v1/analytics/events": with(v1, "Authorization", "Bearer wrong"), "/v1/cloudevents": with(cloud, "X-Api-Key", "wrong")} {
		d := newTestIngest(t)
		r := httptest.NewRequest(http.MethodPost, path, panics{})
		for k, v := range h {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		want(t, w, 401, "*")
	}
}

func TestWrappings(t *testing.T) {
	body := `{"api_key":"` + goodKey + `","batch":[{"event":"ü+/ ?","uuid":"` + id1 + `","distinct_id":"u"}]}`
	b64 := base64.StdEncoding.EncodeToString([]byte(body))
	form := header{"Content-Type": "application/x-www-form-urlencoded"}
	for _, c := range []struct {
		name, to, body string
		headers        header
	}{
		{"form of posthog-js's beacon", "/e/?compression=base64", "data=" + url.QueryEscape(b64), form},
		{"form without escapes loses its plus", "/e/", "data=" + strings.ReplaceAll(b64, "+", " "), form},
		{"form of JSON", "/e/", "data=" + url.QueryEscape(body), form},
		{"form that names its compression", "/e/", "compression=base64&data=" + url.QueryEscape(b64), form},
		{"form nobody said is one", "/e/", "data=" + url.QueryEscape(b64), nil},
		{"JSON said to be a form", "/e/", body, form},
		{"base64", "/e/?compression=base64", b64, nil},
		{"b64 of the other alphabet", "/e/?compression=b64", base64.RawURLEncoding.EncodeToString([]byte(body)), nil},
		{"base64 nobody spoke of", "/e/", b64, nil},
		{"base64 twice", "/e/", base64.StdEncoding.EncodeToString([]byte(b64)), nil},
		{"gzip-js", "/e/?compression=gzip-js", gzipped(body), header{"Content-Type": "text/plain"}},
		{"gzip nobody spoke of", "/e/", gzipped(body), nil},
		{"gzip said but not done", "/e/?compression=gzip-js", body, nil},
		{"base64 said but not done", "/e/?compression=base64", body, nil},
		{"base64 of gzip in a form", "/e/?compression=gzip", "data=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(gzipped(body)))), form},
		{"gzip of base64", "/e/", gzipped(b64), nil},
		{"GET with data", "GET /e/?data=" + url.QueryEscape(b64), "", nil},
		{"GET with JSON", "GET /e?data=" + url.QueryEscape(body), "", nil},
		{"white space around", "/e/", " \r\n" + body + "\n ", nil},
	} {
		d := newTestIngest(t)
		w := d.send(c.to, c.body, c.headers)
		if w.Code != 200 || len(d.intake.jobs) != 1 || d.intake.jobs[0].Type != "ü+/ ?" {
			t.Errorf("%s: %d %s, jobs %q", c.name, w.Code, w.Body, d.payloads())
		}
	}
	d := newTestIngest(t)
	want(t, d.send("/e/?compression=lz64", lzBatch), 200, `{"status":"Ok"}`)
	want(t, d.send("/e/", "compression=lz-string&data="+url.QueryEscape(lzBatch), form), 200, `{"status":"Ok"}`)
	if len(d.intake.jobs) != 1 || d.intake.jobs[0].Type != "ü" {
		t.Errorf("lz-string: jobs %q", d.payloads())
	}
}

// lzBatch is a batch with one event "ü", by lz-string 1.5.0.
const lzBatch = "N4IghgDglg+g1gUwJ4gFwggCwMYwOYD2BAJiADQgBGYALtpmgNqgIBuCAdjWiAD/kgAroKil0ABgCMATnGUALADN5AWnHrxKgOwaVADl0ajRyQOJQAzjSgdsNGKJ6CQAXwC6LoA="

func TestHostileJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	prop := func(v string) string {
		return `{"event":"e","distinct_id":"u","uuid":"` + id1 + `","properties":{"x":` + v + `}}`
	}
	for _, c := range []struct {
		name, body string
		status     int
		jobs       int
	}{
		{"nothing", ``, 400, 0},
		{"white space", ` `, 400, 0},
		{"null", `null`, 400, 0},
		{"text", `"text"`, 400, 0},
		{"number", `1`, 400, 0},
		{"cut", posted(ph)[:60], 400, 0},
		{"a comma too many", posted(ph, ""), 400, 0},
		{"single quotes", strings.ReplaceAll(posted(ph), `"`, `'`), 400, 0},
		{"two bodies", posted(ph) + posted(ph2), 400, 0},
		{"garbage behind", posted(ph) + "x", 400, 0},
		{"NaN", posted(prop(`NaN`)), 400, 0},
		{"leading zero", posted(prop(`01`)), 400, 0},
		{"control character in a text", posted(prop("\"a\nb\"")), 400, 0},
		{"half an escape", posted(prop(`"\u12"`)), 400, 0},
		{"a name that is no text", `{1:2}`, 400, 0},
		{"batch is an object", `{"api_key":"` + goodKey + `","batch":{}}`, 400, 0},
		{"batch twice", `{"api_key":"` + goodKey + `","batch":[` + ph + `],"batch":[` + ph2 + `]}`, 400, 0},
		{"elements that are no objects", posted(`1`, `null`, `"x"`, `[]`, ph), 200, 1},
		{"wrong types", posted(`{"event":7,"distinct_id":"u"}`, `{"event":"e","distinct_id":"u","timestamp":{}}`, ph), 200, 1},
		{"names escaped", `{"api\u005fkey":"` + goodKey + `","b\u0061tch":[` + ph + `]}`, 200, 1},
		{"nested 98 deep in properties", posted(prop(deep(98))), 200, 1},
		{"nested 99 deep in properties", posted(prop(deep(99)), ph2), 200, 1},
		{"brackets in texts are no nesting", posted(prop(`"` + strings.Repeat(`[{\"`, 500) + `"`)), 200, 1},
		{"nested 5,000 deep", posted(prop(deep(5000)), ph2), 200, 1},
		{"nested 1,000,000 deep", posted(prop(deep(1_000_000))), 400, 0},
		{"nested deep beside the events", `{"api_key":"` + goodKey + `","x":` + deep(1_000_000) + `,"batch":[` + ph + `]}`, 400, 0},
		{"a huge number", posted(prop(strings.Repeat("9", 100_000))), 200, 1},
		{"a huge exponent", posted(prop(`1e999999999`)), 200, 1},
		{"invalid UTF-8", posted(prop("\"\xff\xc0\x80\"")), 200, 1},
		{"half a surrogate pair", posted(prop(`"\ud800"`)), 200, 1},
		{"NUL in a text", posted(prop(`"\u0000"`)), 200, 1},
		{"a name twice", posted(prop(`1,"x":2`)), 200, 1},
		{"20,000 properties", posted(`{"event":"e","distinct_id":"u","properties":{` + strings.TrimSuffix(strings.Repeat(`"k":1,`, 20_000), ",") + `}}`), 200, 1},
	} {
		d := newTestIngest(t)
		w := d.send("/batch/", c.body)
		if w.Code != c.status || len(d.intake.jobs) != c.jobs {
			t.Errorf("%s: got %d %.200s and %d jobs; want %d and %d", c.name, w.Code, w.Body, len(d.intake.jobs), c.status, c.jobs)
		}
		for _, p := range d.payloads() {
			if !strings.Contains(c.body, p) {
				t.Errorf("%s: the payload is not as received: %.200q", c.name, p)
			}
		}
	}
}

func FuzzBody(f *testing.F) {
	for _, s := range []string{posted(ph, phIllegal), `[` + ph + `]`, ph, "data=" + base64.StdEncoding.EncodeToString([]byte(posted(ph))),
		gzipped(posted(ph)), base64.StdEncoding.EncodeToString([]byte(gzipped(posted(ph)))), nativeBody(nat, natBad), segmentBatchOf(seg), ce, lzBatch} {
		f.Add(s, uint8(0))
		f.Add(s, uint8(1))
		f.Add(s, uint8(2))
	}
	paths := []struct {
		to string
		h  header
	}{{"/e/", nil}, {"/v1/batch", apiKey}, {"/e/?compression=lz64", nil}, {"/v1/import", basic}, {"/v1/cloudevents", cloud},
		{"/i/v1/analytics/events", with(v1, "Content-Encoding", "zstd")}, {"/i/v1/analytics/events", with(v1, "Content-Encoding", "br")},
		{"/i/v1/analytics/events", with(v1, "Content-Encoding", "deflate")}, {"/v1/t", basic}}
	d := newTestIngest(f)
	f.Fuzz(func(t *testing.T, body string, path uint8) {
		p := paths[int(path)%len(paths)]
		d.intake.jobs, d.intake.names = nil, map[string]bool{}
		w := d.send(p.to, body, p.h)
		switch w.Code {
		case 200, 202, 400, 401, 413, 415:
		default:
			t.Errorf("status %d %s", w.Code, w.Body)
		}
		for _, j := range d.intake.jobs {
			if w.Code >= 300 {
				t.Errorf("answered %d, but there is a job %s", w.Code, j.ID)
			}
			if !bytes.HasPrefix(j.Payload, []byte("{")) || len(j.ID) != 36 || j.Type == "" || len(j.Key) == 0 {
				t.Errorf("job %+v", j)
			}
		}
		if out := d.Bodies.Out(); out != 0 {
			t.Errorf("%d bytes were not given back", out)
		}
	})
}

func TestInflatingRandomBytesIsNoBomb(t *testing.T) { // the ratio is of what was read, not of what is declared
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString(`{"api_key":"` + goodKey + `","batch":[{"event":"e","distinct_id":"u","x":"`)
	for b.Len() < 2<<20 {
		b.WriteString(strconv.FormatUint(r.Uint64(), 16))
	}
	b.WriteString(`"}]}`)
	want(t, newTestIngest(t).send("/batch/", gzipped(b.String())), 200, `{"status":"Ok"}`)
}
