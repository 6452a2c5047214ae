package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/gofiles"
)

// mayOnlyServeBackends are the exported functions of roles that no other package uses, and why
// applications see them. What only backends need is in the role's internal package.
var mayOnlyServeBackends = map[string]string{
	"queue.NotFound":      "it is made where ErrNotFound is, with the words of the API",
	"queue.Out":           "it is made where ErrOut is, with the words of the API",
	"deadletter.NotFound": "it is made where ErrNotFound is, with the words of the API",
	"window.Read":         "reads the message that a window is handed out as, for handlers of applications",
}

// roleOf is the role package that an import path is, or that a folder is in: "queue" for
// state/queue and all below it; empty: none.
func roleOf(rel string) string {
	rest, ok := strings.CutPrefix(rel, "state/")
	if !ok {
		return ""
	}
	role, _, _ := strings.Cut(rest, "/")
	return role
}

// roleUse is what a file says of roles: the functions that it exports, if it is one of a role
// package, and those that it uses, each as "queue.Check".
type roleUse struct{ exports, uses []string }

// rolesIn reads a file of a folder.
func rolesIn(name string, src any, dir string) (use roleUse, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return use, err
	}
	own := roleOf(dir)
	role := own != "" && dir == "state/"+own
	of := map[string]string{} // local names of imported roles
	for _, i := range f.Imports {
		inner := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module+"/")
		if r := roleOf(inner); r != "" && inner == "state/"+r {
			local := r
			if i.Name != nil {
				local = i.Name.Name
			}
			of[local] = r
		}
	}
	var walk func(ast.Node) bool
	walk = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && of[x.Name] != "" && of[x.Name] != own {
				use.uses = append(use.uses, of[x.Name]+"."+n.Sel.Name)
			}
			ast.Inspect(n.X, walk)
			return false
		case *ast.FuncDecl: // its own name is no use
			if role && n.Recv == nil && n.Name.IsExported() {
				use.exports = append(use.exports, own+"."+n.Name.Name)
			}
			if n.Body != nil {
				ast.Inspect(n.Body, walk)
			}
			return false
		case *ast.Ident:
			if role && n.IsExported() {
				use.uses = append(use.uses, own+"."+n.Name)
			}
		}
		return true
	}
	for _, d := range f.Decls {
		ast.Inspect(d, walk)
	}
	return use, nil
}

// TestRolesExportWhatOthersUse holds that a function which only the backends of a role use is not
// part of what applications see.
func TestRolesExportWhatOthersUse(t *testing.T) {
	root := filepath.Join("..", "..")
	exports, uses := map[string]bool{}, map[string]bool{}
	err := gofiles.Walk(root, nil, func(rel, file string) error {
		use, err := rolesIn(file, nil, path.Dir(rel))
		for _, name := range use.exports {
			exports[name] = true
		}
		for _, name := range use.uses {
			uses[name] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range exports {
		if !uses[name] && mayOnlyServeBackends[name] == "" {
			t.Errorf("state/%s is used by backends and tests alone: move it to the role's internal package", name)
		}
	}
	for name := range mayOnlyServeBackends {
		if !exports[name] || uses[name] {
			t.Errorf("state/%s is used by others, or gone: take it out of mayOnlyServeBackends", name)
		}
	}
}

func TestUsesOfRolesAreSeen(t *testing.T) {
	const imports = `import "` + module + `/state/queue"; `
	for _, c := range []struct{ dir, code, exports, uses string }{
		{"state/queue", "func Check() {}", "queue.Check", ""},
		{"state/queue", "func check() {}; func (q *Q) Check() {}", "", ""},
		{"state/queue", "func Check() { Full() }", "queue.Check", "queue.Full"},
		{"state/queue/sqlitequeue", imports + "func a() { queue.Check() }", "", ""},
		{"state/queue/internal/rules", imports + "var a = queue.Check", "", ""},
		{"state/deadletter", imports + "var a = queue.Check", "", "queue.Check"},
		{"systems/crm", imports + "var a = queue.Check()", "", "queue.Check"},
		{"systems/crm", `import jobs "` + module + `/state/queue"; var a = jobs.Check`, "", "queue.Check"},
		{"systems/crm", `import "` + module + `/state/queue/sqlitequeue"; var a = sqlitequeue.New`, "", ""},
	} {
		got, err := rolesIn("planted.go", "package planted; "+c.code, c.dir)
		if err != nil || strings.Join(got.exports, " ") != c.exports || strings.Join(got.uses, " ") != c.uses {
			t.Errorf("%s in %s: %+v, %v; want %q and %q", c.code, c.dir, got, err, c.exports, c.uses)
		}
	}
}
