package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	"github.com/goccy/go-yaml"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// document describes all that this program's API does: api.Document, and those of its further systems.
func (a *API) document() (text []byte, err error) {
	text = api.Document()
	for _, more := range a.Documents {
		if text, err = join(text, more); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// documentYAML is the document as YAML, its names in the same order.
func (a *API) documentYAML() ([]byte, error) {
	text, err := a.document()
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(text)
}

func (a *API) openAPI(context.Context, *operation.None) (operation.Document, error) {
	text, err := a.document()
	return written("application/json", text), err
}

func (a *API) openAPIYAML(context.Context, *operation.None) (operation.Document, error) {
	text, err := a.yaml()
	return written("application/yaml", text), err
}

// written is a document that is there as a whole.
func written(kind string, text []byte) operation.Document {
	return operation.Document{Type: kind, Write: func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(text))
		return err
	}}
}

// join adds paths and schemas of a document to those of another. A schema that both have is the
// same type.
func join(to, from []byte) ([]byte, error) {
	type members = map[string]json.RawMessage
	type document struct {
		OpenAPI    string          `json:"openapi"`
		Info       json.RawMessage `json:"info"`
		Servers    json.RawMessage `json:"servers"`
		Security   json.RawMessage `json:"security"`
		Paths      members         `json:"paths"`
		Components struct {
			Schemas         members         `json:"schemas"`
			Parameters      json.RawMessage `json:"parameters"`
			Headers         json.RawMessage `json:"headers"`
			Responses       json.RawMessage `json:"responses"`
			SecuritySchemes json.RawMessage `json:"securitySchemes"`
		} `json:"components"`
	}
	var all, more document
	for text, d := range map[*[]byte]*document{&to: &all, &from: &more} {
		if err := json.Unmarshal(*text, d); err != nil {
			return nil, fmt.Errorf("a document of the API is no OpenAPI: %w", err)
		}
	}
	maps.Copy(more.Components.Schemas, all.Components.Schemas)
	maps.Copy(all.Paths, more.Paths)
	all.Components.Schemas = more.Components.Schemas
	return json.MarshalIndent(all, "", " ")
}
