// Package archtest tests the direction of imports:
//
//	cmd → a system's edge → cli → connect → serve → a system's rules → config → flow, state, source, sink → policy → root
//
// A system's edge is what makes it a part of a program: endpoint, building on servers, API, pages,
// metrics and commands, each a folder that is named after system and part, like crmingest.
//
// Backends import their role and an internal connection, never each other; but a role on a table
// knows the table in memory. Rules know no product's driver.
package archtest

import (
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/gofiles"
)

const module = "github.com/tidemill/tidemill"

type pkg struct {
	rel     string // path inside the module; the root is ""
	imports []string
}

// packages reads every package's imports, tests left out.
func packages(t *testing.T) []pkg {
	t.Helper()
	root := filepath.Join("..", "..")
	found := map[string]map[string]bool{}
	err := gofiles.Walk(root, nil, func(rel, file string) error {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		if rel = path.Dir(rel); rel == "." {
			rel = ""
		}
		if found[rel] == nil {
			found[rel] = map[string]bool{}
		}
		for _, i := range f.Imports {
			found[rel][strings.Trim(i.Path.Value, `"`)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for _, rel := range slices.Sorted(maps.Keys(found)) {
		all = append(all, pkg{rel, slices.Sorted(maps.Keys(found[rel]))})
	}
	return all
}

// layers from the words outwards: a package imports its own layer or inner ones.
var layers = [][]string{
	{""},
	{"policy"},
	{"flow", "state", "source", "sink", "internal", "open"},
	{"config"},
	{"systems"},
	{"embedded"},
	{"serve"},
	{"connect"},
	{"cli"},
	{"edges"},
	{"cmd", "sim", "test", "bench", "examples", "scripts"},
}

// layer of a package path inside the module.
func layer(rel string) int {
	top, _, _ := strings.Cut(rel, "/")
	if edge(rel) {
		top = "edges"
	}
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, top) })
}

// edge reports whether a package is what makes a system a part of a program.
func edge(rel string) bool {
	parts := strings.Split(rel, "/")
	if parts[0] != "systems" || len(parts) < 3 {
		return rel == "systems"
	}
	part, its := strings.CutPrefix(parts[2], parts[1])
	return its && slices.Contains([]string{"api", "cli", "console", "ingest", "metrics", "system"}, part)
}

// products are the prefixes of backends' package names.
var products = []string{"table", "memory", "sqlite", "redis", "kafka", "postgres", "clickhouse", "opensearch", "mqtt", "http", "bullmq"}

func backend(rel string) bool {
	name := path.Base(rel)
	for _, p := range products {
		if rest, ok := strings.CutPrefix(name, p); ok && rest == path.Base(path.Dir(rel)) {
			return true
		}
	}
	return false
}

// joins reports whether a package joins backends of one product, for a system's rules that gain
// from a shared store. A role on a table is of each product that has tables.
func joins(rel, inner string) bool {
	if !strings.HasPrefix(rel, "systems/") || !backend(rel) || !backend(inner) {
		return false
	}
	return slices.ContainsFunc(products, func(p string) bool {
		return strings.HasPrefix(path.Base(rel), p) && (strings.HasPrefix(path.Base(inner), p) || strings.HasPrefix(path.Base(inner), "table"))
	})
}

// speaks are rules about one protocol, not about a role: a partner is an HTTP service, whatever
// else changes.
var speaks = map[string]string{"systems/delivery/partner": "sink/httpsink", "systems/crm/webhook": "sink/httpsink"}

// onTable reports whether a package keeps its role in any table: what tests and simulation need is in
// memory.
func onTable(rel, inner string) bool {
	return inner == "state/table/memorytable" && backend(rel) && strings.HasPrefix(path.Base(rel), "table")
}

// wires reports whether a package puts systems on products: connect and its parts, and what applications embed.
func wires(rel string) bool {
	return rel == "connect" || strings.HasPrefix(rel, "connect/") || strings.HasPrefix(rel, "embedded/") || edge(rel) && strings.HasSuffix(path.Base(rel), "system")
}

// tests reports whether a package is for the tests of others.
func tests(rel string) bool { return strings.HasSuffix(rel, "test") }

// measures reports whether a package compares backends with what is below them, or shows how to
// put them together.
func measures(rel string) bool {
	return strings.HasPrefix(rel, "bench/") || strings.HasPrefix(rel, "examples/")
}

// drivers may only be imported by backends and their connections.
var drivers = []string{"modernc.org/sqlite", "database/sql", "github.com/redis/", "github.com/twmb/", "github.com/jackc/", "github.com/ClickHouse/", "github.com/eclipse/paho", "github.com/mochi-mqtt/", "go.opentelemetry.io/"}

func TestImportsPointInwards(t *testing.T) {
	for _, p := range packages(t) {
		rel := p.rel
		from := layer(rel)
		if from < 0 {
			t.Errorf("%s is in no room that the design knows", rel)
			continue
		}
		for _, i := range p.imports {
			inner, ours := strings.CutPrefix(i, module)
			inner = strings.TrimPrefix(inner, "/")
			if !ours {
				if slices.ContainsFunc(drivers, func(d string) bool { return strings.HasPrefix(i, d) }) && !backend(rel) && !strings.HasPrefix(rel, "internal/") && !measures(rel) {
					t.Errorf("%s imports the driver %s: only backends and their connections may", rel, i)
				}
				continue
			}
			if tests(inner) && !tests(rel) {
				t.Errorf("%s imports %s, which is for tests", rel, inner)
			}
			if to := layer(inner); to > from {
				t.Errorf("%s imports %s, which is further out", rel, inner)
			}
			if rel == "" {
				t.Errorf("the root package imports %s: it knows the standard library only", inner)
			}
			if joins(rel, inner) || onTable(rel, inner) {
				continue
			}
			if backend(rel) && backend(inner) {
				t.Errorf("backend %s imports backend %s", rel, inner)
			}
			if backend(inner) && !wires(rel) && rel != "sim" && !measures(rel) && !tests(rel) && speaks[rel] != inner {
				t.Errorf("%s imports the backend %s: only connect/system, the package that puts a system on servers, and embedded (and simulation and examples) know which product is behind a role", rel, inner)
			}
		}
	}
}

// TestSystemsAreApart checks that a new system is a folder below systems and a line of systems.All:
// no system imports what is another's, and nothing but that line how one is built.
func TestSystemsAreApart(t *testing.T) {
	for _, p := range packages(t) {
		for _, i := range p.imports {
			inner := strings.TrimPrefix(i, module+"/")
			of := strings.Split(inner, "/")
			if in := strings.Split(p.rel, "/"); in[0] == "systems" && len(in) > 1 && of[0] == "systems" && of[1] != in[1] {
				t.Errorf("%s imports %s, which is another system's", p.rel, inner)
			}
			if !edge(inner) || tests(p.rel) || inner == "systems" || measures(p.rel) || p.rel == "sim" {
				continue
			}
			if !strings.HasPrefix(p.rel, "systems/"+of[1]+"/") && (p.rel != "systems" || !strings.HasSuffix(inner, "system")) {
				t.Errorf("%s imports %s: that is for the system alone", p.rel, inner)
			}
		}
	}
}

func TestTheRootPackageNeedsTheStandardLibraryOnly(t *testing.T) {
	for _, p := range packages(t) {
		if p.rel != "" {
			continue
		}
		for _, i := range p.imports {
			if first, _, _ := strings.Cut(i, "/"); strings.Contains(first, ".") {
				t.Errorf("the root package imports %s", i)
			}
		}
	}
}
