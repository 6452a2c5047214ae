package console_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestPagesAreZippedAndSecretsAreNot holds that a page comes gzipped, and that one with a secret, which is
// the answer to a form, does not.
func TestPagesAreZippedAndSecretsAreNot(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	plain := w.Page("/console/reference")
	rec := w.Ask("GET", "/console/reference", nil, "Accept-Encoding", "gzip")
	if rec.Header().Get("Content-Encoding") != "gzip" || rec.Header().Get("Vary") != "Accept-Encoding" || rec.Body.Len() > len(plain)/3 {
		t.Fatalf("the page comes as %v, %d bytes of %d", rec.Header(), rec.Body.Len(), len(plain))
	}
	in, err := gzip.NewReader(rec.Body)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(in); err != nil || string(b[:500]) != plain[:500] || len(b) < len(plain)-100 { // it says when it was made
		t.Errorf("it is %d bytes, %v; want %d", len(b), err, len(plain))
	}
	if rec := w.Ask("GET", "/console/reference", nil, "Accept-Encoding", "gzip", "Sec-Fetch-Site", "cross-site"); rec.Header().Get("Content-Encoding") != "" {
		t.Error("a page that another site asks for is zipped")
	}
	form := w.Form("/console/access/tokens/make")
	form.Set("name", "ci")
	form.Set("role", "viewer")
	rec = w.Ask("POST", "/console/access/tokens/make", form, "Accept-Encoding", "gzip")
	if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), "tmapi_") || rec.Header().Get("Content-Encoding") != "" {
		t.Errorf("the page with a token is answered %d, %v", rec.Code, rec.Header())
	}
}
