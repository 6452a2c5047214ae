package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/nearest"
)

// Layers are where settings come from beside the defaults.
type Layers struct {
	File    string              // path; empty: none
	Getenv  func(string) string // nil: none
	Flags   map[string]string   // by path, e.g. "listen"
	Machine Machine             // what computed defaults are made of; zero: this machine

	// StandIns says that a secret that is named and not set has a stand-in: for a configuration that
	// is looked at, and does not run.
	StandIns bool
}

// Loaded is a configuration and where each of its settings came from.
type Loaded struct {
	Config
	From map[string]string // by path: default, file:LINE, the variable's name, the flag's, flag
	File string            // that was read; empty: none

	groups []group             // of the systems
	wrong  map[string]error    // by path: values of late groups that could not be read
	layers map[string]layer    // by path
	named  []string            // variables whose names begin as ours do, as far as the file has them
	places map[string][]string // of the elements of a list, by its path: FILE:LINE and a colon
	getenv func(string) string

	standIns bool // Layers.StandIns

	secrets *secrets // that were asked for
}

// ByFile says whether the file set a setting, and nothing later.
func (c *Loaded) ByFile(path string) bool { return c.layers[path] == byFile }

// layer is what a setting came from. Later ones win.
type layer int

const (
	byDefault layer = iota
	byFile
	byEnvironment
	byFlag
)

const fromDefault = "default"

// quotedEmpty is how the empty text is written in the environment, where an empty variable
// counts as not set.
const quotedEmpty = `""`

// Load puts the layers together and checks the result. Its error names every mistake:
// where it stands, what is wrong and what is allowed. Mistakes in the values of groups that
// are Late are not among them: their Check names those.
// With an error comes the configuration as far as it could be read, for such further checks.
func (s Schema) Load(l Layers) (*Loaded, error) {
	c := s.blank()
	c.File, c.getenv, c.standIns = l.File, l.Getenv, l.StandIns
	fs := c.Fields()
	machine := l.Machine.fill()
	var errs []error
	for i := range fs {
		f := &fs[i]
		f.machine = machine
		c.From[f.Path] = fromDefault
		if f.Default != "" {
			if err := f.set(f.Default, 0); err != nil {
				panic(fmt.Sprintf("config: default of %s: %v", f.Path, err)) // a test loads the defaults
			}
		}
	}
	if l.File != "" {
		errs = append(errs, c.file(l.File, fs))
	}
	for i := range fs {
		f := &fs[i]
		if l.Getenv != nil {
			errs = append(errs, c.environment(f, l.Getenv))
		}
		if text, ok := l.Flags[f.Path]; ok {
			errs = append(errs, c.flag(f, text))
		}
	}
	if l.Getenv != nil && c.From["listen"] != "flag" && l.Getenv("TIDEMILL_LISTEN") == "" {
		if port := l.Getenv("INGEST_PORT"); port != "" {
			c.Listen, c.From["listen"], c.layers["listen"] = "127.0.0.1:"+port, "INGEST_PORT", byEnvironment
		}
	}
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	return c, c.check(fs)
}

// take sets a field to text that came from a layer. place says where from, for people. A
// value of a late group that cannot be read is kept for its check, and not in force.
func (c *Loaded) take(f *Field, by layer, from, place, text string, bare time.Duration) error {
	err := errHidden
	if !hidden(text) {
		err = f.set(text, bare)
	}
	if err == nil {
		c.From[f.Path], c.layers[f.Path] = from, by
		return nil
	}
	if f.Secret && !errors.Is(err, errHidden) {
		err = errors.New("not a usable value")
	}
	err = fmt.Errorf("%s: %w%s", place, err, remark(f.Allow))
	if !c.late(f.Path) {
		return err
	}
	c.wrong[f.Path] = errors.Join(c.wrong[f.Path], err)
	return nil
}

// late says whether a setting is of a late group.
func (c *Loaded) late(path string) bool {
	return slices.ContainsFunc(c.groups, func(g group) bool { return g.Late && strings.HasPrefix(path, g.prefix()) })
}

func (c *Loaded) environment(f *Field, getenv func(string) string) error {
	for _, name := range f.Env {
		text := getenv(name)
		if text == "" {
			continue
		}
		if text == quotedEmpty {
			text = ""
		}
		bare := f.bare
		if strings.HasSuffix(name, "_MS") {
			bare = time.Millisecond
		}
		return c.take(f, byEnvironment, name, name, text, bare)
	}
	return nil
}

func (c *Loaded) flag(f *Field, text string) error {
	if f.Flag != "" {
		return c.take(f, byFlag, "--"+f.Flag, "--"+f.Flag, text, f.bare)
	}
	return c.take(f, byFlag, "flag", "--"+f.Path, text, f.bare)
}

// file reads a YAML file into c. Unknown and doubled keys are refused with their line.
func (c *Loaded) file(path string, fs []Field) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff")) // some editors begin a file with it
	c.named = ourVariables.FindAllString(string(b), -1)
	tree, err := parser.ParseBytes(b, 0)
	if err != nil {
		return broken(path, err)
	}
	byPath := map[string]*Field{}
	for i := range fs {
		byPath[fs[i].Path] = &fs[i]
	}
	r := reader{c: c, path: path, fields: byPath}
	read := false
	for _, doc := range tree.Docs {
		switch {
		case doc.Body == nil:
		case read: // what it says again would silently win
			r.fail(doc.Body, "a second document begins here, behind ---: put all settings into one")
		default:
			r.node("", doc.Body)
			read = true
		}
	}
	return errors.Join(r.errs...)
}

var ourVariables = regexp.MustCompile(`TIDEMILL_\w+`)

// broken says where a file is no YAML. It does not show the place: a key may stand there.
func broken(path string, err error) error {
	e, ok := errors.AsType[yaml.Error](err)
	if !ok || e.GetToken() == nil || e.GetToken().Position == nil {
		return fmt.Errorf("%s is no YAML", path)
	}
	at := e.GetToken().Position
	return fmt.Errorf("%s:%d: this is no YAML, at column %d: %s", path, at.Line, at.Column, e.GetMessage())
}

// reader walks the file's tree.
type reader struct {
	c      *Loaded
	path   string
	fields map[string]*Field
	errs   []error
}

func (r *reader) fail(n ast.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.path, n.GetToken().Position.Line, fmt.Sprintf(format, args...)))
}

func (r *reader) node(prefix string, n ast.Node) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		if _, null := n.(*ast.NullNode); !null {
			r.fail(n, "%s is a group of settings, not a value", cmp.Or(strings.TrimSuffix(prefix, "."), "the file"))
		}
		return
	}
	seen, lists := map[string]bool{}, map[string]reflect.Value{}
	for _, l := range r.c.lists() {
		lists[l.path] = l.value
	}
	for _, kv := range m.Values {
		key := kv.Key.GetToken().Value
		path := prefix + key
		if seen[key] {
			r.fail(kv.Key, "%s is set twice", path)
			continue
		}
		seen[key] = true
		switch f := r.fields[path]; {
		case f != nil:
			r.value(f, kv.Value)
		case path == "projects":
			r.projects(kv.Value)
		case lists[path].IsValid():
			r.list(path, kv.Value, lists[path])
		case r.isGroup(path):
			r.node(path+".", kv.Value)
		default:
			r.fail(kv.Key, "there is no setting %s%s", path, r.suggest(path))
		}
	}
}

func (r *reader) isGroup(path string) bool {
	for p := range r.fields {
		if strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

func (r *reader) value(f *Field, n ast.Node) {
	text := ""
	switch v := n.(type) {
	case *ast.SequenceNode:
		var parts []string
		for _, e := range v.Values {
			part, ok := r.scalar(e)
			if !ok {
				return
			}
			parts = append(parts, part)
		}
		text = strings.Join(parts, ",")
		if text := "[" + text + "]"; f.Secret && hidden(text) { // without its quotes
			r.fail(n, "%s: %v", f.Path, errHidden)
			return
		}
	case *ast.MappingNode:
		r.fail(n, "%s is one value, not a group", f.Path)
		return
	case *ast.NullNode:
		return
	default:
		var ok bool
		if text, ok = r.scalar(n); !ok {
			return
		}
	}
	at := fmt.Sprintf("%s:%d", r.path, n.GetToken().Position.Line)
	if err := r.c.take(f, byFile, at, at+": "+f.Path, text, f.bare); err != nil {
		r.errs = append(r.errs, err)
	}
}

// scalar is the text of a plain value. Anchors, aliases, tags and what is nested are none.
func (r *reader) scalar(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
	case ast.ScalarNode:
		return n.GetToken().Value, true
	}
	r.fail(n, "write a plain value here: lists in lists, anchors, aliases and tags are not read")
	return "", false
}

func (r *reader) projects(n ast.Node) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fail(n, "projects is a list: write - {name: shop, key: …}")
		return
	}
	for _, e := range list.Values {
		m, ok := e.(*ast.MappingNode)
		if !ok {
			r.fail(e, "a project has a name and a key")
			continue
		}
		var p Project
		for _, kv := range m.Values {
			key := kv.Key.GetToken().Value
			if key != "name" && key != "key" {
				r.fail(kv.Key, "a project has a name and a key, not %q", key)
				continue
			}
			text, ok := r.scalar(kv.Value)
			if !ok {
				text = "-" // said already
			}
			if key == "name" {
				p.Name = text
			} else {
				p.Key = tidemill.NewSecret(text)
			}
		}
		if p.Name == "" || p.Key.IsZero() {
			r.fail(e, "a project needs both a name and a key")
		}
		r.c.Projects = append(r.c.Projects, p)
		r.c.places["projects"] = append(r.c.places["projects"], fmt.Sprintf("%s:%d: ", r.path, e.GetToken().Position.Line))
	}
}

// suggest finds the setting that was probably meant.
func (r *reader) suggest(path string) string {
	best := nearest.To(path, slices.Sorted(maps.Keys(r.fields)))
	if best == "" {
		return "; `tidemill config reference` lists all"
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// Fields lists the settings with their values now, in the order of the structs. Lists of structs
// (projects) are not among them: they are set in the file and by flags of their own.
func (c *Loaded) Fields() []Field {
	fs := fieldsIn(reflect.ValueOf(&c.Config).Elem(), "", 0, false)
	for _, g := range c.groups {
		fs = append(fs, g.fields()...)
	}
	return fs
}

// Reference lists every setting with its default.
func (s Schema) Reference() []Field {
	c, err := s.Load(Layers{})
	if err != nil {
		panic("config: the defaults are refused: " + err.Error()) // a test loads them
	}
	return slices.Clip(c.Fields())
}
