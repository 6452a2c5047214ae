package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/pb33f/libopenapi"

	"github.com/tidemill/tidemill/serve/admin"
)

func TestTheDocumentInYAMLIsThatInJSON(t *testing.T) {
	a := admin.New(admin.Parts{NoAuth: true})
	get := func(path, kind string) []byte {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+admin.Prefix+path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != kind {
			t.Fatalf("%s answered %d, %s: %.300s", path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		return w.Body.Bytes()
	}
	text := get("openapi.yaml", "application/yaml")
	again, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var in, want any
	if err := json.Unmarshal(again, &in); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(get("openapi.json", "application/json"), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, want) {
		t.Error("openapi.yaml is another document than openapi.json")
	}
	if _, err := libopenapi.NewDocument(text); err != nil {
		t.Errorf("another reader of YAML: %v", err)
	}
}
