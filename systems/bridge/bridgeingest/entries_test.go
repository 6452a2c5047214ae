package bridgeingest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

func TestEntries(t *testing.T) {
	store := memoryqueue.New(memoryqueue.Options{Capacity: 5})
	handler, err := New(Options{Queue: "bridge", Add: store, Limits: endpoint.Limits{Body: 100}})
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, body string, header ...string) (int, []string) {
		r := httptest.NewRequest(method, Path, strings.NewReader(body))
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		var answer struct {
			IDs    []string
			Detail string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || (w.Code != 202) != (answer.Detail != "") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		return w.Code, answer.IDs
	}
	const ndjson = "application/x-ndjson; charset=utf-8"
	if s, ids := send("POST", " {\"n\": 12345678901234567890}\n"); s != 202 || len(ids) != 1 {
		t.Error(s, ids)
	}
	for range 2 { // the same again adds nothing
		if s, ids := send("POST", "a\n\nb\r\n", "Content-Type", ndjson, "Idempotency-Key", "k"); s != 202 || len(ids) != 2 || ids[0] != "k/0" {
			t.Error(s, ids)
		}
	}
	if s, _ := send("POST", "one", "Idempotency-Key", "k2"); s != 202 {
		t.Error(s)
	}
	for want, r := range map[int][]string{
		http.StatusMethodNotAllowed:      {"GET", ""},
		http.StatusBadRequest:            {"POST", ""},
		http.StatusRequestEntityTooLarge: {"POST", strings.Repeat("x", 101)},
		http.StatusServiceUnavailable:    {"POST", "a\nb\nc", "Content-Type", ndjson},
	} {
		if s, _ := send(r[0], r[1], r[2:]...); s != want {
			t.Errorf("%q: %d, want %d", r, s, want)
		}
	}
	if s, _ := send("POST", "x", "Idempotency-Key", strings.Repeat("k", 256)); s != 400 {
		t.Error(s)
	}
	source := store.Open("bridge", queue.Options{})
	into := make([]*tidemill.Message, 10)
	for i := range into {
		into[i] = &tidemill.Message{}
	}
	n, err := source.Receive(t.Context(), into)
	var got []string
	for _, m := range into[:n] {
		got = append(got, string(m.Payload))
	}
	if want := " {\"n\": 12345678901234567890}\n|a|b|one"; err != nil || strings.Join(got, "|") != want && !strings.HasPrefix(strings.Join(got, "|"), want) {
		t.Errorf("stored %q, %v", got, err)
	}
}
