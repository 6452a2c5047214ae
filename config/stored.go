package config

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/parser"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/project"
)

// Stored is an element of a list that does not stand in the file: a database has it. Lists that may
// have such ones have the tag stored, whose value is what one element is called, like partner.
type Stored struct {
	List string // its path
	Name string
	Text []byte // as Describe returns it
}

// FromDatabase is the place of elements that are Stored.
const FromDatabase = "the database"

// Element is an element of a list that may have Stored ones.
type Element struct {
	Kind string // what one is called
	List string
	Name string
	From string // FILE:LINE, or FromDatabase

	value reflect.Value
}

// ListOf is the list whose elements are called so; empty: there is none, or none that may have Stored
// ones.
func (c *Loaded) ListOf(kind string) string {
	for _, l := range c.lists() {
		if l.stored != "" && l.stored == kind {
			return l.path
		}
	}
	return ""
}

// Kinds are what elements are called of lists that may have Stored ones.
func (c *Loaded) Kinds() (all []string) {
	for _, l := range c.lists() {
		if l.stored != "" {
			all = append(all, l.stored)
		}
	}
	return all
}

// Elements are those of the lists that may have Stored ones, in their order.
func (c *Loaded) Elements() (all []Element) {
	for _, l := range c.lists() {
		if l.stored == "" {
			continue
		}
		names, byName := elements(l.value)
		for i, name := range names {
			place, _, _ := strings.Cut(c.Element(l.path, i), ": ")
			all = append(all, Element{l.stored, l.path, name, place, byName[name]})
		}
	}
	return all
}

// Named is the element of a list that has a name; false: there is none.
func (c *Loaded) Named(list, name string) (Element, bool) {
	all := c.Elements()
	i := slices.IndexFunc(all, func(e Element) bool { return e.List == list && e.Name == name })
	if i < 0 {
		return Element{}, false
	}
	return all[i], true
}

// Shown is the element in JSON, as it is in force, without anything that may be a secret.
func (e *Element) Shown() ([]byte, error) {
	return inJSON(shown(e.value))
}

// WithStored is c with Stored elements in place of those that it has: a copy, checked as a file is. An
// element of the file with the same name wins.
func (c *Loaded) WithStored(all []Stored) (*Loaded, error) {
	next := c.copied()
	r := reader{c: next, path: FromDatabase}
	for _, l := range next.lists() {
		if l.stored == "" {
			continue
		}
		next.dropStored(&l)
		names, _ := elements(l.value)
		for _, s := range all {
			if s.List == l.path && !slices.Contains(names, s.Name) {
				r.stored(&l, &s)
			}
		}
	}
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	return next, next.check(next.Fields())
}

// dropStored takes the elements out of a list that are Stored.
func (c *Loaded) dropStored(l *listOf) {
	kept, places := reflect.MakeSlice(l.value.Type(), 0, l.value.Len()), []string(nil)
	for i := range l.value.Len() {
		place := ""
		if all := c.places[l.path]; i < len(all) {
			place = all[i]
		}
		if place != FromDatabase+": " {
			kept, places = reflect.Append(kept, l.value.Index(i)), append(places, place)
		}
	}
	l.value.Set(kept)
	c.places[l.path] = places
}

// stored reads an element that is Stored.
func (r *reader) stored(l *listOf, s *Stored) {
	tree, err := parser.ParseBytes(s.Text, 0)
	if err != nil || len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %s %s: it cannot be read", r.path, l.stored, s.Name))
		return
	}
	r.path = fmt.Sprintf("%s: %s %s", FromDatabase, l.stored, s.Name)
	if r.element(l.path, l.stored, tree.Docs[0].Body, l.value) {
		r.c.places[l.path] = append(r.c.places[l.path], FromDatabase+": ")
	}
	r.path = FromDatabase
}

// copied is another configuration that is the same.
func (c *Loaded) copied() *Loaded {
	var s Schema
	for _, g := range c.groups {
		s = append(s, g.Group)
	}
	next := s.blank()
	next.From, next.layers, next.wrong, next.places = maps.Clone(c.From), maps.Clone(c.layers), maps.Clone(c.wrong), maps.Clone(c.places)
	next.File, next.named, next.getenv, next.standIns, next.secrets = c.File, c.named, c.getenv, c.standIns, c.secrets
	were, are := c.Fields(), next.Fields()
	for i := range were {
		are[i].value.Set(were[i].value)
	}
	lists := next.lists()
	for i, l := range c.lists() {
		lists[i].value.Set(l.value)
	}
	return next
}

// Describe makes of a JSON object the text of a Stored element of a list. Where there is one already,
// was is its text, and the object is a merge patch (RFC 7396) of it. No secret stands in the text: of a
// key its SHA-256 does, and other secrets are refused, for the variables they are in can be named.
func (c *Loaded) Describe(list, name string, was, patch []byte) ([]byte, error) {
	lists := c.lists()
	i := slices.IndexFunc(lists, func(l listOf) bool { return l.path == list && l.stored != "" })
	if i < 0 {
		return nil, fmt.Errorf("elements of %s stand in the file", list)
	}
	t := lists[i].element()
	var is, change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil || change == nil {
		return nil, fmt.Errorf("the body is no JSON object: send what describes the %s, by the names that the settings of %s have in the file", lists[i].stored, list)
	}
	if was != nil {
		if err := json.Unmarshal(was, &is); err != nil {
			return nil, fmt.Errorf("%s %s is damaged: %w", lists[i].stored, name, err)
		}
	}
	if err := errors.Join(hiddenIn("", change), withoutSecrets(t, change)); err != nil {
		return nil, fmt.Errorf("%s %s: %w", lists[i].stored, name, err)
	}
	for _, m := range membersOf(t) {
		if m.name != "name" && m.name != "id" {
			continue
		}
		if given, there := change[m.name]; there && given != name {
			return nil, fmt.Errorf("%s %s: %s in its description is another one: it cannot be changed", lists[i].stored, name, m.name)
		}
		change[m.name] = name
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(Merged(is, change)); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(text.String(), "\n")), nil
}

// Merged is a value of JSON with a merge patch (RFC 7396) applied. It changes neither.
func Merged(to, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	is, _ := to.(map[string]any)
	out := maps.Clone(is)
	if out == nil {
		out = map[string]any{}
	}
	for name, v := range change {
		if v == nil {
			delete(out, name)
		} else {
			out[name] = Merged(out[name], v)
		}
	}
	return out
}

var secretType = reflect.TypeFor[tidemill.Secret]()

// HashesOf is the name of the setting that has the SHA-256 of the keys of another one.
func HashesOf(keys string) string { return keys + "_sha256" }

func isSecret(t reflect.Type) bool {
	return t == secretType || t.Kind() == reflect.Slice && t.Elem() == secretType
}

// hashed says whether the SHA-256 of a setting's keys are kept.
func hashed(members []member, name string) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.name == HashesOf(name) })
}

// withoutSecrets puts hashes in the place of keys, and refuses other secrets. What has another form
// than its type is left to who reads it.
func withoutSecrets(t reflect.Type, is map[string]any) error {
	members := membersOf(t)
	for _, m := range members {
		v, of := is[m.name], m.of
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		secret := isSecret(of)
		if group, ok := v.(map[string]any); ok && of.Kind() == reflect.Struct && !secret {
			if err := withoutSecrets(of, group); err != nil {
				return fmt.Errorf("%s.%w", m.name, err)
			}
		}
		if !secret || v == nil {
			continue
		}
		hashes := HashesOf(m.name)
		if !hashed(members, m.name) {
			return fmt.Errorf("%s: secrets are not kept in the database: name the variables that have them, in %s_env", m.name, m.name)
		}
		keys, ok := v.([]any)
		if !ok {
			continue
		}
		all, _ := is[hashes].([]any)
		for _, k := range keys {
			key, ok := k.(string)
			if err := project.CheckKey(key); !ok || err != nil {
				return fmt.Errorf("%s: %w", m.name, errors.Join(err, errors.New("a key is a text")))
			}
			hash := project.HashOf(tidemill.NewSecret(key))
			all = append(all, hex.EncodeToString(hash[:]))
		}
		delete(is, m.name)
		is[hashes] = all
	}
	return nil
}
