package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Kinds of Setting.
const (
	KindText     = "text"
	KindWhole    = "whole"    // a whole number
	KindNumber   = "number"   // with a fraction or none
	KindTruth    = "truth"    // true or false
	KindDuration = "duration" // such as 10s
	KindList     = "list"     // of texts
	KindNames    = "names"    // names with texts
	KindGroups   = "groups"   // a list of groups of settings
)

// Setting is one setting of an element that may be Stored.
type Setting struct {
	Name   string // from the element on: queue.full
	Kind   string
	Form   string // what it is written like, in words
	Help   string
	Main   bool // most elements set it
	Secret bool // nothing shows it: of a key its SHA-256 is kept
}

// SettingsOf are those of an element of a kind, in the order of its description; nil: there is no such
// kind. The element's name is not among them, and no secret that is not kept in a database.
func (c *Loaded) SettingsOf(kind string) []Setting {
	for _, l := range c.lists() {
		if l.stored != "" && l.stored == kind {
			return settingsIn("", l.element(), false)
		}
	}
	return nil
}

func settingsIn(prefix string, t reflect.Type, main bool) (all []Setting) {
	members := membersOf(t)
	for _, m := range members {
		of := m.of
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		s := Setting{Name: prefix + m.name, Kind: kindOf(of), Form: formOf(of), Help: m.field.Tag.Get("help"), Main: main || m.field.Tag.Get("main") == "true", Secret: isSecret(of)}
		switch {
		case prefix == "" && (m.name == "name" || m.name == "id"):
		case s.Kind == "":
			all = append(all, settingsIn(s.Name+".", of, s.Main)...)
		case !s.Secret || hashed(members, m.name):
			all = append(all, s)
		}
	}
	return all
}

// kindOf is the kind of a setting of a type; empty: it is a group.
func kindOf(t reflect.Type) string {
	switch {
	case t == durationType:
		return KindDuration
	case isText(t):
		return KindText
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && !isText(t.Elem()):
		return KindGroups
	}
	return map[reflect.Kind]string{reflect.Slice: KindList, reflect.Map: KindNames, reflect.Bool: KindTruth, reflect.Int: KindWhole, reflect.Float64: KindNumber, reflect.String: KindText}[t.Kind()]
}

// Given is how the element is described, in JSON: without what a preset adds to it, and without
// anything that may be a secret, in whose place urlsecret.Hidden stands.
func (e *Element) Given() ([]byte, error) {
	v := e.value
	if g, ok := v.Interface().(interface{ Given() any }); ok {
		v = reflect.ValueOf(g.Given())
	} else {
		v = shown(v)
	}
	return inJSON(v)
}

// inJSON are the settings of a value that are set.
func inJSON(v reflect.Value) ([]byte, error) {
	text, err := yaml.MarshalWithOptions(v.Interface(), yaml.OmitZero())
	if err != nil {
		return nil, err
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSpace(string(text))), nil
}

// Mistake is something wrong with an element.
type Mistake struct {
	Setting string // from the element on: queue.full; empty: it is of no single one
	Text    string
}

var (
	atLine   = regexp.MustCompile(`^:\d+: `)
	wordForm = regexp.MustCompile(`[A-Za-z0-9_]+`)
)

// Mistakes are the lines of an error that the element of a kind and a name causes, each with the
// setting that it is of. Given are the settings that were given, in JSON.
func (c *Loaded) Mistakes(kind, name string, given []byte, err error) (all []Mistake) {
	settings := c.SettingsOf(kind)
	var values map[string]any
	_ = json.Unmarshal(given, &values) // no object: nothing was given
	for line := range strings.SplitSeq(err.Error(), "\n") {
		text, ours := about(line, kind, name)
		if !ours {
			continue
		}
		all = append(all, Mistake{blamed(settings, text, values), text})
	}
	return all
}

// noSetting is how a text begins that names no setting, but perhaps the one that was meant.
const noSetting = "there is no setting "

// about is what a line says of an element.
func about(line, kind, name string) (text string, ours bool) {
	for _, called := range []string{kind + " " + name, fmt.Sprintf("%s %q", kind, name)} {
		_, rest, found := strings.Cut(line, called)
		switch {
		case !found:
		case strings.HasPrefix(rest, ": "):
			return rest[2:], true
		case atLine.MatchString(rest):
			rest = rest[len(atLine.FindString(rest)):]
			return strings.TrimPrefix(strings.ReplaceAll(rest, noSetting+kind+".", noSetting), kind+"."), true
		}
	}
	if strings.Contains(line, fmt.Sprintf("%q", name)) { // as in: sites "a" and "b" have the same key
		return strings.TrimPrefix(line, FromDatabase+": "), true
	}
	return "", false
}

// blamed is the setting that a text is about. Texts begin with its name; else they have it, or its
// value, as a word.
func blamed(settings []Setting, text string, values map[string]any) string {
	at, rest := "", strings.TrimPrefix(text, noSetting)
	for {
		word := wordForm.FindString(rest)
		if word == "" || !strings.HasPrefix(rest, word) || !among(settings, at+word) {
			break
		}
		if at += word; isSetting(settings, at) {
			return at
		}
		at, rest = at+".", strings.TrimLeft(rest[len(word):], ".: ")
	}
	words := wordForm.FindAllString(rest, -1)
	for _, s := range settings {
		if v, ok := valueAt(values, s.Name).(string); ok && v != "" && slices.Contains(words, v) && strings.HasPrefix(s.Name, at) {
			return s.Name
		}
	}
	for _, word := range words {
		for _, s := range settings {
			if s.Name == at+word || s.Name == at+word+"s" || at == "" && strings.HasPrefix(s.Name, word+".") {
				return s.Name
			}
		}
	}
	if at != "" {
		return settings[slices.IndexFunc(settings, func(s Setting) bool { return strings.HasPrefix(s.Name, at) })].Name
	}
	return ""
}

// among says whether a path is a setting, or a group of them.
func among(settings []Setting, path string) bool {
	return slices.ContainsFunc(settings, func(s Setting) bool { return s.Name == path || strings.HasPrefix(s.Name, path+".") })
}

func isSetting(settings []Setting, path string) bool {
	return slices.ContainsFunc(settings, func(s Setting) bool { return s.Name == path })
}

// valueAt is the value of a setting.
func valueAt(values map[string]any, path string) any {
	name, rest, below := strings.Cut(path, ".")
	if group, ok := values[name].(map[string]any); below && ok {
		return valueAt(group, rest)
	} else if below {
		return nil
	}
	return values[name]
}
