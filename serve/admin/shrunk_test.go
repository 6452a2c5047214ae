package admin_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
)

// TestAnswersAreZippedAndSecretsAreNot asks as a client that takes gzip.
func TestAnswersAreZippedAndSecretsAreNot(t *testing.T) {
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		m := &tidemill.Message{ID: fmt.Sprint("d", n), Payload: []byte(`{"text":"` + strings.Repeat("x", 3000) + `"}`), Mark: tidemill.Mark{Lo: uint64(n)}}
		if err := letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "p", Message: m, At: time.Now()}}); err != nil {
			t.Fatal(err)
		}
	}
	d := newDesk(t, admin.Parts{Letters: letters, People: access.Options{Store: tableaccess.Memory()}})
	ask := func(method, path, body string, headers ...string) (*httptest.ResponseRecorder, string) {
		t.Helper()
		w, r := httptest.NewRecorder(), request(method, admin.Prefix+path, body)
		r.Header.Set("Accept-Encoding", "gzip")
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		d.api.ServeHTTP(w, r)
		if w.Header().Get("Content-Encoding") != "gzip" {
			return w, ""
		}
		in, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		return w, string(b)
	}
	for _, path := range []string{"dead?limit=20", "dead", "openapi.json", "openapi.yaml", "dead/1"} {
		plain := d.ask(http.MethodGet, path, "").Body.String()
		w, said := ask(http.MethodGet, path, "")
		if path == "dead?limit=20" { // it says when it was read
			plain, said = plain[:len(plain)-100], said[:min(len(plain)-100, len(said))]
		}
		if said != plain || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s comes as %v, and is not what comes plain: %.100s", path, w.Header(), said)
		}
	}

	// The ETag is that of what is told, zipped or not.
	plain := d.ask(http.MethodGet, "dead/1", "")
	w, _ := ask(http.MethodGet, "dead/1", "")
	tag := w.Header().Get("ETag")
	if tag == "" || tag != plain.Header().Get("ETag") {
		t.Fatalf("the ETag is %q, and plain %q", tag, plain.Header().Get("ETag"))
	}
	if w, _ := ask(http.MethodPut, "dead/1/payload", `{"n":1}`, "If-Match", tag, "Content-Type", "application/json"); w.Code != http.StatusOK {
		t.Errorf("a change of what came zipped is answered %d: %s", w.Code, w.Body)
	}
	if w, _ := ask(http.MethodPut, "dead/1/payload", `{"n":2}`, "If-Match", tag, "Content-Type", "application/json"); w.Code != http.StatusPreconditionFailed {
		t.Errorf("a change of what is there no more is answered %d", w.Code)
	}

	w, said := ask(http.MethodPost, "tokens?name="+strings.Repeat("n", 64)+"&role=viewer", "")
	if w.Code != http.StatusOK || said != "" || !json.Valid(w.Body.Bytes()) {
		t.Errorf("a token is answered %d, %v", w.Code, w.Header())
	}
	for _, h := range d.api.Operations() {
		if h.Secret && h.Method != http.MethodPost {
			t.Errorf("%s has a secret and is a read", h.ID)
		}
	}
	if w, _ := ask(http.MethodGet, "stream?topic=none", ""); strings.Contains(strings.Join(w.Header()["Vary"], " "), "Encoding") {
		t.Errorf("a stream varies: %v", w.Header())
	}
}
