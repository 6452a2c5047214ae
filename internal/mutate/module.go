package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A listed package, as go list knows it.
type listed struct {
	ImportPath, Dir           string
	GoFiles                   []string
	Imports                   []string
	TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports []string
}

// module is what can be changed and tested.
type module struct {
	root, name string
	packages   map[string]listed // by path inside the module
}

func load(ctx context.Context, root string) (*module, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Dir,GoFiles,Imports,TestGoFiles,XTestGoFiles,TestImports,XTestImports", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("go list: %w: %s", err, e.Stderr)
		}
		return nil, err
	}
	cmd = exec.CommandContext(ctx, "go", "list", "-m")
	cmd.Dir = root
	name, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	m := &module{root: root, name: strings.TrimSpace(string(name)), packages: map[string]listed{}}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return m, nil
		} else if err != nil {
			return nil, err
		}
		m.packages[m.inside(p.ImportPath)] = p
	}
}

// inside is a package's path inside the module.
func (m *module) inside(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, m.name), "/")
}

// onServers are the first words of packages whose tests need servers: they are mutated only if
// named, for tests on servers that the caller has requested.
var onServers = []string{"redis", "postgres", "kafka", "bullmq"}

func needsServer(pkg string) bool {
	return slices.ContainsFunc(onServers, func(s string) bool { return strings.HasPrefix(path.Base(pkg), s) })
}

// forTests reports whether a package is the contract of a role: a fault in it is not one of the
// product.
func forTests(pkg string) bool { return strings.HasSuffix(pkg, "test") }

// faults of the packages that begin with these paths, or of these files, or of all rooms; in order.
func (m *module) faults(named []string) ([]fault, error) {
	under := rooms
	if len(named) > 0 {
		under = make([]string, len(named))
		for i, u := range named {
			under[i] = strings.Trim(strings.TrimPrefix(filepath.ToSlash(u), "./"), "/")
		}
	}
	var all []fault
	matched := map[string]bool{}
	for _, pkg := range m.sorted() {
		if forTests(pkg) {
			continue
		}
		constants, err := m.neighbours(pkg)
		if err != nil {
			return nil, err
		}
		for _, file := range m.packages[pkg].GoFiles {
			file = path.Join(pkg, file)
			i := slices.IndexFunc(under, func(u string) bool { return file == u || strings.HasPrefix(file, u+"/") })
			if i < 0 || needsServer(pkg) && !needsServer(strings.TrimSuffix(under[i], "/"+path.Base(file))) {
				continue
			}
			matched[under[i]] = true
			found, err := faultsOf(m.root, file, constants)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	for _, u := range under {
		if len(named) > 0 && !matched[u] {
			return nil, fmt.Errorf("no package or file %q: want paths inside the module, for instance %q", u, rooms)
		}
	}
	return all, nil
}

func (m *module) sorted() []string {
	l := make([]string, 0, len(m.packages))
	for p := range m.packages {
		l = append(l, p)
	}
	slices.Sort(l)
	return l
}

// neighbours finds, for each constant of an enumeration that a package can use, the next one
// of the same enumeration; those of imported packages with their package's name before.
func (m *module) neighbours(pkg string) (map[string]string, error) {
	all := map[string]string{}
	if err := m.enumerations(pkg, "", all); err != nil {
		return nil, err
	}
	for _, i := range m.packages[pkg].Imports {
		inner := m.inside(i)
		if _, ours := m.packages[inner]; !ours || i == inner {
			continue
		}
		if err := m.enumerations(inner, path.Base(i)+".", all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (m *module) enumerations(pkg, prefix string, all map[string]string) error {
	p := m.packages[pkg]
	for _, file := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			names := enumeration(g)
			for i, n := range names {
				if len(names) > 1 && (prefix == "" || ast.IsExported(n)) {
					all[prefix+n] = names[(i+1)%len(names)]
				}
			}
		}
	}
	return nil
}

// enumeration is the names of a group of constants that counts with iota.
func enumeration(g *ast.GenDecl) []string {
	var names []string
	counts := false
	for _, s := range g.Specs {
		v := s.(*ast.ValueSpec)
		for _, e := range v.Values {
			ast.Inspect(e, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && id.Name == "iota" {
					counts = true
				}
				return true
			})
		}
		if len(v.Names) == 1 && v.Names[0].Name != "_" {
			names = append(names, v.Names[0].Name)
		}
	}
	if !counts {
		return nil
	}
	return names
}

// importers are the packages of the rooms that use pkg, in the product or in their tests,
// and whose tests run anywhere.
func (m *module) importers(pkg string) []string {
	whole := m.name + "/" + pkg
	var l []string
	for _, p := range m.sorted() {
		room, _, _ := strings.Cut(p, "/")
		q := m.packages[p]
		if p == pkg || !slices.Contains(rooms, room) || needsServer(p) || !m.hasTests(p) {
			continue
		}
		if slices.Contains(q.Imports, whole) || slices.Contains(q.TestImports, whole) || slices.Contains(q.XTestImports, whole) {
			l = append(l, p)
		}
	}
	return l
}

func (m *module) hasTests(pkg string) bool {
	p := m.packages[pkg]
	return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0
}
