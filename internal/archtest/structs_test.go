package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/gofiles"
)

// mostFields is how many fields a struct may have. One with more has several duties, of which
// each could be a type of its own.
const mostFields = 30

// mayBeWide are the structs that may have more fields, and why. A struct of duties is divided
// instead.
var mayBeWide = map[string]string{
	"flow/pipeline.go Pipeline": "the options of a pipeline, each with its default",
}

// describes reports whether the structs of a folder may have any number of fields: what an
// operator sets and what the API answers is as wide as the thing that it describes.
func describes(rel string) bool {
	return rel == "config" || strings.HasPrefix(rel, "config/") ||
		rel == "serve/api" || strings.HasPrefix(rel, "serve/api/") || strings.HasSuffix(rel, "config")
}

// settings reports whether a struct is read from the configuration: each field says its name there.
func settings(s *ast.StructType) bool {
	for _, f := range s.Fields.List {
		if f.Tag == nil || !strings.Contains(f.Tag.Value, `yaml:"`) {
			return false
		}
	}
	return true
}

// wideStruct is a struct with more than mostFields fields.
type wideStruct struct {
	name   string // of its type; empty: it has none
	fields int
}

// wide finds the structs in a file that have too many fields and are no settings. An embedded
// struct counts as one: it is a type of its own.
func wide(name string, src any) ([]wideStruct, error) {
	f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []wideStruct
	names := map[ast.Expr]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			names[n.Type] = n.Name.Name
		case *ast.StructType:
			if n.Fields.NumFields() > mostFields && !settings(n) {
				found = append(found, wideStruct{names[n], n.Fields.NumFields()})
			}
		}
		return true
	})
	return found, nil
}

func TestStructsHaveFewFields(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	err := gofiles.Walk(root, func(rel string) bool { return notProduct(rel) || rel == "sim" || describes(rel) }, func(rel, path string) error {
		found, err := wide(path, nil)
		for _, s := range found {
			of := rel + " " + s.name
			if seen[of] = true; mayBeWide[of] == "" {
				t.Errorf("%s: a struct has %d fields; more than %d are several duties: give each its own type", of, s.fields, mostFields)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for of := range mayBeWide {
		if !seen[of] {
			t.Errorf("%s may be wide, and is not: take it out of mayBeWide", of)
		}
	}
}

func TestFieldsAreCounted(t *testing.T) {
	names := make([]string, mostFields+1)
	tagged := make([]string, len(names))
	for i := range names {
		names[i] = fmt.Sprint("F", i)
		tagged[i] = fmt.Sprintf("F%d int `yaml:\"f%d\"`", i, i)
	}
	most, more, set := strings.Join(names[1:], ", ")+" int", strings.Join(names, ", ")+" int", strings.Join(tagged, "; ")
	for _, c := range []struct{ code, want string }{
		{"type a struct { " + most + " }", "[]"},
		{"type a struct { " + more + " }", "[{a 31}]"},
		{"type a struct { " + strings.ReplaceAll(more, ", ", " int; ") + " }", "[{a 31}]"},
		{"type a struct { " + most + "; b }; type b struct{}", "[{a 31}]"},
		{"type a struct { b struct { " + more + " } }", "[{ 31}]"},
		{"func a() { type b struct { " + more + " } }", "[{b 31}]"},
		{"type a[T any] struct { " + more + " }", "[{a 31}]"},
		{"type a struct { " + set + " }", "[]"},
		{"type a struct { " + set + "; one int }", "[{a 32}]"},
	} {
		found, err := wide("planted.go", "package planted; "+c.code)
		if got := fmt.Sprint(found); err != nil || got != c.want {
			t.Errorf("%s: found %s, %v; want %s", c.code, got, err, c.want)
		}
	}
}
