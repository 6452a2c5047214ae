package opensearchsearch

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// template is an index template as it is put and got.
type template struct {
	Patterns []string `json:"index_patterns"`
	Priority int      `json:"priority"`
	Inner    inner    `json:"template"`
}

type inner struct {
	Settings settings `json:"settings"`
	Mappings mappings `json:"mappings"`
}

type settings struct {
	Index map[string]string `json:"index"` // servers answer with texts
}

type mappings struct {
	Dynamic    bool                `json:"dynamic"`
	Properties map[string]property `json:"properties"`
}

type property struct {
	Type        string              `json:"type"`
	Index       *bool               `json:"index,omitzero"`
	DocValues   *bool               `json:"doc_values,omitzero"`
	IgnoreAbove int                 `json:"ignore_above,omitzero"`
	Fields      map[string]property `json:"fields,omitzero"`
}

// priority of our templates. Servers' own end at 100.
const priority = 200

// of makes the template of a schema. Other names are stored and not indexed: an index takes a
// thousand names, and refuses documents with more.
func of(s *search.Schema) template {
	no := false
	m := mappings{Dynamic: false, Properties: map[string]property{}}
	for _, f := range s.Fields {
		p := property{Type: string(f.Type)}
		switch {
		case f.Stored && f.Type == search.Keyword:
			p.Index, p.DocValues = &no, &no
		case f.Stored:
			p.Index = &no
		case f.Type == search.Keyword:
			p.IgnoreAbove = search.KeywordUnits
		case f.Type == search.Text:
			p.Fields = map[string]property{"keyword": {Type: string(search.Keyword), IgnoreAbove: search.SubUnits}}
		}
		m.Properties[f.Name] = p
	}
	return template{Patterns: []string{s.Name + "-*"}, Priority: priority, Inner: inner{
		Settings: settings{map[string]string{"number_of_shards": "1", "number_of_replicas": "0"}}, Mappings: m}}
}

// Setup implements search.Store. It replaces a template that differs. Existing indices keep
// their types.
func (s *Store) Setup(ctx context.Context) error {
	if s.o.Unmanaged {
		s.ready.Store(true)
		return nil
	}
	for _, name := range s.names {
		if err := s.setup(ctx, name, of(s.schemas[name])); err != nil {
			return fmt.Errorf("set up the index template %s: %w", name, blameless(err))
		}
	}
	s.ready.Store(true)
	return nil
}

func (s *Store) setup(ctx context.Context, name string, want template) error {
	path := "/_index_template/" + name
	body, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("write it as JSON: %w", err)
	}
	answer, err := s.conn.Do(ctx, http.MethodGet, path, nil)
	switch {
	case err == nil && same(answer, body):
		return nil
	case err != nil && opensearchhttp.Status(err) != http.StatusNotFound:
		return err
	}
	_, err = s.conn.Do(ctx, http.MethodPut, path, body)
	return err
}

// same reports whether the server has what we want. Its answer has more names than we put.
func same(answer, body []byte) bool {
	var got struct {
		Templates []struct {
			Template map[string]any `json:"index_template"`
		} `json:"index_templates"`
	}
	var want map[string]any
	if json.Unmarshal(answer, &got) != nil || json.Unmarshal(body, &want) != nil || len(got.Templates) != 1 {
		return false
	}
	for name, value := range want {
		if !reflect.DeepEqual(got.Templates[0].Template[name], value) {
			return false
		}
	}
	return true
}
