package opensearchsearch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// stub is a server that answers bulk requests as told.
type stub struct {
	mu     sync.Mutex
	bodies []string
	answer func(w http.ResponseWriter, lines []string)
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		fmt.Fprint(w, `{"version":{"number":"2.19.5","distribution":"opensearch"}}`)
		return
	}
	if r.Method == http.MethodGet { // the existing indices
		fmt.Fprint(w, `{"gdelt-events-2025-03-23":{"settings":{"index":{"creation_date":"1742688000000"}}}}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	s.answer(w, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n"))
}

// items answers with statuses, one for each document.
func items(w io.Writer, statuses ...int) {
	var all []string
	for _, status := range statuses {
		if status < 300 {
			all = append(all, fmt.Sprintf(`{"index":{"status":%d}}`, status))
			continue
		}
		all = append(all, fmt.Sprintf(`{"index":{"status":%d,"error":{"type":"some_exception","reason":"no"}}}`, status))
	}
	fmt.Fprintf(w, `{"errors":true,"items":[%s]}`, strings.Join(all, ","))
}

func stubbed(t *testing.T, o Options, answer func(w http.ResponseWriter, lines []string)) (*Store, *stub) {
	t.Helper()
	o.Unmanaged = true
	b := &stub{answer: answer}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	return store(t, open(t, s.URL, opensearchhttp.Options{}), o, search.Events()), b
}

func docs(ids ...string) (all []search.Doc) {
	for _, id := range ids {
		all = append(all, search.Doc{Schema: "gdelt-events", Day: "2025-03-23", ID: id, Body: []byte(`{}`)})
	}
	return all
}

// failed are the kinds in a Partial.
func failed(t *testing.T, err error) map[int]tidemill.Kind {
	t.Helper()
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		t.Fatalf("%v is no Partial", err)
	}
	kinds := map[int]tidemill.Kind{}
	for _, f := range partly.Failed {
		kinds[f.Index] = tidemill.KindOf(f.Err)
	}
	if len(kinds) != len(partly.Failed) {
		t.Errorf("a document is named twice: %v", err)
	}
	return kinds
}

func TestEachDocumentHasItsResult(t *testing.T) {
	s, b := stubbed(t, Options{}, func(w http.ResponseWriter, lines []string) { items(w, 201, 429, 200, 503, 409, 400, 500, 404) })
	err := s.Index(t.Context(), docs("0", "1", "2", "3", "4", "5", "6", "7"))
	got := failed(t, err)
	want := map[int]tidemill.Kind{1: tidemill.RateLimit, 3: tidemill.Transient, 5: tidemill.Validation, 6: tidemill.Transient, 7: tidemill.Transient}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	partly, _ := errors.AsType[*tidemill.Partial](err)
	if got := partly.Failed[2].Err.Error(); !strings.Contains(got, " some_exception: ") { // copies of dead letters name it
		t.Errorf("the refused document: %s", got)
	}
	if len(b.bodies) != 1 {
		t.Errorf("%d requests, want 1: who repeats is decided elsewhere", len(b.bodies))
	}
}

func TestAnAnswerThatCannotBeReadIsNoSuccess(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, []string){
		"an item is missing":    func(w http.ResponseWriter, _ []string) { items(w, 201) },
		"an item too many":      func(w http.ResponseWriter, _ []string) { items(w, 201, 201, 201) },
		"no items":              func(w http.ResponseWriter, _ []string) { fmt.Fprint(w, `{}`) },
		"nothing":               func(w http.ResponseWriter, _ []string) {},
		"cut in the middle":     func(w http.ResponseWriter, _ []string) { fmt.Fprint(w, `{"items":[{"index":{"status":201}},`) },
		"items without results": func(w http.ResponseWriter, _ []string) { fmt.Fprint(w, `{"items":[{},{"create":{"status":201}}]}`) },
		"a page of a proxy":     func(w http.ResponseWriter, _ []string) { fmt.Fprint(w, `<html>`) },
		"a connection cut": func(w http.ResponseWriter, _ []string) {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"items\":[")
				c.Close()
			}
		},
	} {
		s, _ := stubbed(t, Options{}, answer)
		got := failed(t, s.Index(t.Context(), docs("0", "1")))
		if len(got) != 2 || got[0] != tidemill.Transient || got[1] != tidemill.Transient {
			t.Errorf("%s: %v, want both transient", name, got)
		}
	}
}

func TestARefusedRequestBlamesNoDocument(t *testing.T) {
	for status, want := range map[int]tidemill.Kind{400: tidemill.Transient, 401: tidemill.Credentials, 403: tidemill.Credentials, 404: tidemill.Transient, 429: tidemill.RateLimit, 500: tidemill.Transient, 503: tidemill.Transient, 504: tidemill.Timeout} {
		s, b := stubbed(t, Options{BatchDocs: 2}, func(w http.ResponseWriter, _ []string) {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":{"type":"some_exception","reason":"Malformed action/metadata line [1]"}}`)
		})
		got := failed(t, s.Index(t.Context(), docs("0", "1", "2", "3", "4")))
		for i := range 5 {
			if got[i] != want {
				t.Errorf("status %d: document %d is %v, want %v", status, i, got[i], want)
			}
		}
		if len(b.bodies) != 1 {
			t.Errorf("status %d: %d requests, want the rest held back", status, len(b.bodies))
		}
	}
}

func TestWhatWasTakenBeforeARefusalStays(t *testing.T) {
	n := 0
	s, _ := stubbed(t, Options{BatchDocs: 2}, func(w http.ResponseWriter, _ []string) {
		if n++; n == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		items(w, 201, 400)
	})
	got := failed(t, s.Index(t.Context(), docs("0", "1", "2", "3", "4")))
	want := map[int]tidemill.Kind{1: tidemill.Validation, 2: tidemill.Transient, 3: tidemill.Transient, 4: tidemill.Transient}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestARequestThatIsTooLargeIsSentInHalves(t *testing.T) {
	var taken []string
	s, b := stubbed(t, Options{}, func(w http.ResponseWriter, lines []string) {
		if len(lines) > 4 || strings.Contains(strings.Join(lines, ""), "huge") {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		taken = append(taken, lines...)
		items(w, slices.Repeat([]int{201}, len(lines)/2)...)
	})
	all := docs("0", "1", "2", "3", "4", "5", "6")
	all[3].Body = []byte(`{"a":"huge"}`)
	got := failed(t, s.Index(t.Context(), all))
	if len(got) != 1 || got[3] != tidemill.Validation {
		t.Errorf("%v, want the huge one refused", got)
	}
	if len(taken) != 12 || len(b.bodies) > 13 {
		t.Errorf("%d lines taken in %d requests", len(taken), len(b.bodies))
	}
}

func TestRequestsAreBoundedByDocumentsAndBytes(t *testing.T) {
	answer := func(w http.ResponseWriter, lines []string) { items(w, slices.Repeat([]int{201}, len(lines)/2)...) }
	s, b := stubbed(t, Options{BatchDocs: 3}, answer)
	if err := s.Index(t.Context(), docs("0", "1", "2", "3", "4", "5", "6")); err != nil || len(b.bodies) != 3 {
		t.Errorf("%d requests of 7 documents by threes: %v", len(b.bodies), err)
	}
	s, b = stubbed(t, Options{BatchBytes: 3000}, answer)
	all := docs("0", "1", "2", "3", "4")
	for i := range all {
		all[i].Body = []byte(`{"a":"` + strings.Repeat("x", 1000) + `"}`)
	}
	all[2].Body = []byte(`{"a":"` + strings.Repeat("x", 9000) + `"}`) // goes alone
	if err := s.Index(t.Context(), all); err != nil || len(b.bodies) != 3 {
		t.Errorf("%d requests by bytes, want 2 + 1 + 2 documents: %v", len(b.bodies), err)
	}
	for _, body := range b.bodies {
		if len(body) > 3000 && strings.Count(body, "\n") != 2 {
			t.Errorf("a request has %d bytes", len(body))
		}
	}
}

func TestNoDocumentBreaksOutOfItsLine(t *testing.T) {
	s, b := stubbed(t, Options{}, func(w http.ResponseWriter, lines []string) { items(w, 201, 201) })
	all := docs("a\",\"_index\":\"other\nx", "2")
	all[0].Body = []byte("{\n\"a\":1}\r\n{\"delete\":{}}\n")
	all[1].Version = 7
	if err := s.Index(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	want := `{"index":{"_index":"gdelt-events-2025-03-23","_id":"a\",\"_index\":\"other\nx"}}` + "\n" + `{ "a":1}  {"delete":{}} ` + "\n" +
		`{"index":{"_index":"gdelt-events-2025-03-23","_id":"2","version":7,"version_type":"external_gte"}}` + "\n{}\n"
	if b.bodies[0] != want {
		t.Errorf("sent\n%s\nwant\n%s", b.bodies[0], want)
	}
}

func TestNoDocumentGoesBeforeItsTemplate(t *testing.T) {
	for name, c := range map[string]struct {
		get, put int
		want     tidemill.Kind
	}{
		"the template is refused":   {404, 400, tidemill.Transient},
		"the user may not read it":  {403, 200, tidemill.Credentials},
		"the server is not there":   {503, 200, tidemill.Transient},
		"the template can be put":   {404, 200, tidemill.NoKind},
		"the user may not put it":   {404, 403, tidemill.Credentials},
		"it differs and can be put": {200, 200, tidemill.NoKind},
	} {
		var asked []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch asked = append(asked, r.Method+" "+r.URL.Path); {
			case r.URL.Path == "/":
				fmt.Fprint(w, `{"version":{"number":"2.19.5","distribution":"opensearch"}}`)
			case r.URL.Path == "/_bulk":
				items(w, 201)
			default:
				w.WriteHeader(map[string]int{http.MethodGet: c.get, http.MethodPut: c.put}[r.Method])
				fmt.Fprint(w, `{"error":{"type":"some_exception","reason":"no"}}`)
			}
		}))
		index := store(t, open(t, s.URL, opensearchhttp.Options{}), Options{}, search.Events())
		err := index.Index(t.Context(), docs("0"))
		if (err == nil) != (c.want == tidemill.NoKind) || err != nil && tidemill.KindOf(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if slices.Contains(asked, "POST /_bulk") != (err == nil) {
			t.Errorf("%s: %q", name, asked)
		}
		asked = nil
		if err == nil {
			if err := index.Index(t.Context(), docs("1")); err != nil || len(asked) != 1 {
				t.Errorf("%s: the next call asks %q: %v", name, asked, err)
			}
		}
		s.Close()
	}
}

func TestAnEndedContextIsSaidAsSuch(t *testing.T) {
	over := make(chan struct{})
	s, _ := stubbed(t, Options{}, func(http.ResponseWriter, []string) { <-over })
	defer close(over)
	ctx, cancel := contextWithCancel(t)
	go cancel()
	if err := s.Index(ctx, docs("0")); !errors.Is(err, ctx.Err()) || err == nil {
		t.Errorf("%v", err)
	}
}

// BenchmarkIndex is our own cost of a document: a request of 2,000 events without a server.
func BenchmarkIndex(b *testing.B) {
	body := []byte(`{"globalEventId":1234567890,"actor1Name":"UNITED STATES"` + strings.Repeat(`,"someCode":"value of it"`, 50) + `}`)
	s := search.Events()
	lines := make([]byte, 0, 4<<20)
	payload := append(bytes.TrimSuffix(body, []byte("}")), `,"elasticIndexDate":"2025-03-23"}`...)
	payload = bytes.ReplaceAll(payload, []byte(`"someCode"`), []byte(`"c"`))
	for i := 1; bytes.Contains(payload, []byte(`"c"`)); i++ {
		payload = bytes.Replace(payload, []byte(`"c"`), fmt.Appendf(nil, `"code%d"`, i), 1)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		d, err := s.Doc([]byte("1234567890"), payload)
		if err != nil {
			b.Fatal(err)
		}
		lines = appendDoc(lines[:0], s, s.Index(d.Day), &d)
	}
}
