package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// document is what is compared of a description in OpenAPI 3.1.
type document struct {
	Paths      map[string]map[string]*operation
	Components struct {
		Schemas    map[string]*schema
		Parameters map[string]*parameter
		Responses  map[string]*response
	}
}

type operation struct {
	ID         string `json:"operationId"`
	Parameters []*parameter
	Body       *body `json:"requestBody"`
	Responses  map[string]*response
	Role       string `json:"x-role"`
	Systems    string `json:"x-systems"`
	FreshLogin bool   `json:"x-fresh-login"`
	Deprecated string `json:"x-deprecated"` // a day; empty: it stays
	Sunset     string `json:"x-sunset"`

	request string // its method and path
}

type parameter struct {
	Ref      string `json:"$ref"`
	Name, In string
	Required bool
	Schema   *schema
}

type body struct {
	Required bool
	Content  content
}

type response struct {
	Ref     string `json:"$ref"`
	Headers map[string]any
	Content content
}

// content is by the kind of media.
type content map[string]struct{ Schema *schema }

// schema has each keyword that our descriptions have: one that is not here would not be compared, and
// is refused when it is read.
type schema struct {
	Ref         string  `json:"$ref"`
	Type        kinds   `json:"type"`
	Enum        []any   `json:"enum"`
	Format      string  `json:"format"`
	Pattern     string  `json:"pattern"`
	Default     any     `json:"default"`
	Minimum     *number `json:"minimum"`
	Maximum     *number `json:"maximum"`
	Items       *schema `json:"items"`
	Properties  forms   `json:"properties"`
	Required    names   `json:"required"`
	Additional  *schema `json:"additionalProperties"`
	OneOf       []*schema
	AnyOf       []*schema
	Description string `json:"description"` // not compared
	Examples    any    `json:"examples"`    // not compared
	Example     any    `json:"example"`     // not compared
}

type (
	number = float64
	names  []string
	forms  map[string]*schema
)

// UnmarshalJSON reads a schema, and no keyword that is not compared.
func (s *schema) UnmarshalJSON(b []byte) error {
	type plain schema
	in := json.NewDecoder(bytes.NewReader(b))
	in.DisallowUnknownFields()
	if err := in.Decode((*plain)(s)); err != nil {
		return fmt.Errorf("a schema that apidiff cannot compare, %.80s: %w", b, err)
	}
	return nil
}

// kinds are the types that a value may have; none: any.
type kinds []string

// UnmarshalJSON reads one or several.
func (k *kinds) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) {
		return json.Unmarshal(b, (*[]string)(k))
	}
	*k = make(kinds, 1)
	return json.Unmarshal(b, &(*k)[0])
}

// read reads a description.
func read(text []byte) (*document, error) {
	d := &document{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, err
	}
	for path, methods := range d.Paths {
		for method, o := range methods {
			o.request = strings.ToUpper(method) + " " + path
			for i, p := range o.Parameters {
				if p.Ref != "" {
					o.Parameters[i] = d.Components.Parameters[nameOf(p.Ref)]
				}
				if o.Parameters[i] == nil {
					return nil, fmt.Errorf("%s: there is no %s", o.ID, p.Ref)
				}
			}
			for status, r := range o.Responses {
				if r.Ref != "" {
					o.Responses[status] = d.Components.Responses[nameOf(r.Ref)]
				}
				if o.Responses[status] == nil {
					return nil, fmt.Errorf("%s: there is no %s", o.ID, r.Ref)
				}
			}
		}
	}
	return d, nil
}

// nameOf is that of a component.
func nameOf(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// operations are all, by their ids.
func (d *document) operations() map[string]*operation {
	all := map[string]*operation{}
	for _, methods := range d.Paths {
		for _, o := range methods {
			all[o.ID] = o
		}
	}
	return all
}

// form is what a schema refers to, or itself; nil is one that takes anything.
func (d *document) form(s *schema) *schema {
	for s != nil && s.Ref != "" {
		s = d.Components.Schemas[nameOf(s.Ref)]
	}
	if s == nil {
		return &schema{}
	}
	return s
}
