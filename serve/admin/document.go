package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// openAPI describes all that this program's API does: api.Document, and those of its further systems.
func (a *API) openAPI(context.Context, *operation.None) (out operation.Document, err error) {
	text := api.Document
	for _, more := range a.Documents {
		if text, err = join(text, more); err != nil {
			return out, err
		}
	}
	return operation.Document{Type: "application/json", Write: func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(text))
		return err
	}}, nil
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
