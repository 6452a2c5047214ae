package api_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/tidemill/tidemill/internal/golden"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/apitest"
	"github.com/tidemill/tidemill/systems"
)

// The description is made of what is declared, and of what is served: nothing else is there, and
// nothing is left out.
func TestTheDescriptionIsThatOfTheOperations(t *testing.T) {
	all := admin.New(admin.Parts{Rooms: systems.All().Rooms(nil)}).Operations()
	want := apitest.Document(t, all, apitest.ReadExamples(t, "examples.json"))
	golden.Same(t, "openapi.json", want)
	if golden.Update() {
		pack(t, want)
	} else if !bytes.Equal(api.Document(), want) {
		t.Error("what is served is not openapi.json")
	}
	golden.Same(t, filepath.Join("..", "..", "docs", "api.md"), apitest.Reference(t, all))
}

// pack writes what the program has of the description.
func pack(t *testing.T, text []byte) {
	t.Helper()
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // there is that level
	_, err := w.Write(text)
	if err := errors.Join(err, w.Close(), os.WriteFile("openapi.json.gz", out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestTheDescriptionIsValidOpenAPI(t *testing.T) {
	doc, err := libopenapi.NewDocument(api.Document())
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, wrong := v.ValidateDocument(); !ok {
		for _, w := range wrong {
			t.Error(w)
		}
	}
}

func TestEveryOperationHasItsOwnNameAndASentence(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range admin.New(admin.Parts{Rooms: systems.All().Rooms(nil)}).Operations() {
		if seen[h.ID] || h.ID == "" || len(h.Text) < 10 || h.Text[len(h.Text)-1] != '.' {
			t.Errorf("%s %s is called %q, and is said to do %q", h.Method, h.Path, h.ID, h.Text)
		}
		seen[h.ID] = true
		for _, p := range h.Params {
			if p.In == "query" && p.Field.Tag.Get("help") == "" {
				t.Errorf("%s: nothing is said of %s", h.ID, p.Name)
			}
		}
	}
}
