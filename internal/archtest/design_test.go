package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	stepRow = regexp.MustCompile(`^\| \d \| (.*?) \| (.*?) \| `)
	quoted  = regexp.MustCompile("`([^`]+)`")
)

// TestTheDesignNamesWhereAnEventGoes holds docs/design.md to the code: each step of an event's way
// begins in a package that there is, in a method that it has.
func TestTheDesignNamesWhereAnEventGoes(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "design.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := packages(t)
	ways, last := 0, ""
	for line := range strings.Lines(string(page)) {
		row := stepRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		if n := line[2:3]; n == "1" {
			ways++
		} else if n > "5" || n <= last {
			t.Errorf("step %s follows step %s: a way has five steps or fewer, in order", n, last)
		}
		last = line[2:3]
		room, in := quoted.FindStringSubmatch(row[1])[1], quoted.FindStringSubmatch(row[2])[1]
		at := slices.IndexFunc(all, func(p pkg) bool { return p.rel == room || strings.HasSuffix(p.rel, "/"+room) })
		if at < 0 {
			t.Errorf("there is no package %s", room)
			continue
		}
		if !slices.Contains(methods(t, all[at].rel), in) {
			t.Errorf("%s has no method %s", all[at].rel, in)
		}
	}
	if ways != 5 {
		t.Errorf("there are the ways of %d systems, want 5", ways)
	}
}

// methods are those of a package, each as Type.Method.
func methods(t *testing.T, rel string) (all []string) {
	t.Helper()
	files, err := fs.Glob(os.DirFS(filepath.Join("..", "..", rel)), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", rel, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || strings.HasSuffix(name, "_test.go") {
				continue
			}
			of := fn.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if generic, ok := of.(*ast.IndexExpr); ok {
				of = generic.X
			}
			if named, ok := of.(*ast.Ident); ok {
				all = append(all, named.Name+"."+fn.Name.Name)
			}
		}
	}
	return all
}
