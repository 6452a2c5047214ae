// Package archtest holds the direction of imports, as a test:
//
//	cmd → connect → serve → systems → flow, state, source, sink → policy → root
//
// Backends import their role and an internal connection, never each other; rules know no
// product's driver.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tidemill/tidemill"

type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// packages lists everything in the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// layers from the words outwards: a package imports its own layer's or inner ones.
var layers = [][]string{
	{""},
	{"policy"},
	{"flow", "state", "source", "sink", "internal"},
	{"systems"},
	{"config"},
	{"serve"},
	{"connect"},
	{"cmd", "sim", "test", "bench", "examples"},
}

// layer of a package path inside the module.
func layer(rel string) int {
	top, _, _ := strings.Cut(rel, "/")
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, top) })
}

// products are the prefixes of backends' package names.
var products = []string{"memory", "sqlite", "redis", "kafka", "postgres", "clickhouse", "opensearch", "mqtt", "http"}

func backend(rel string) bool {
	name := path.Base(rel)
	for _, p := range products {
		if rest, ok := strings.CutPrefix(name, p); ok && rest == path.Base(path.Dir(rel)) {
			return true
		}
	}
	return false
}

// drivers are what only backends and their connections may import.
var drivers = []string{"modernc.org/sqlite", "database/sql", "github.com/redis/", "github.com/twmb/", "github.com/jackc/", "github.com/ClickHouse/"}

func TestImportsPointInwards(t *testing.T) {
	for _, p := range packages(t) {
		rel := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		from := layer(rel)
		if from < 0 {
			t.Errorf("%s is in no room that the design knows", rel)
			continue
		}
		for _, i := range p.Imports {
			inner, ours := strings.CutPrefix(i, module)
			inner = strings.TrimPrefix(inner, "/")
			if !ours {
				if slices.ContainsFunc(drivers, func(d string) bool { return strings.HasPrefix(i, d) }) && !backend(rel) && !strings.HasPrefix(rel, "internal/") {
					t.Errorf("%s imports the driver %s: only backends and their connections may", rel, i)
				}
				continue
			}
			if to := layer(inner); to > from {
				t.Errorf("%s imports %s, which is further out", rel, inner)
			}
			if rel == "" {
				t.Errorf("the root package imports %s: it knows the standard library only", inner)
			}
			if backend(rel) && backend(inner) {
				t.Errorf("backend %s imports backend %s", rel, inner)
			}
			if backend(inner) && !strings.HasPrefix(rel, "connect") && !strings.HasPrefix(rel, "sim") {
				t.Errorf("%s imports the backend %s: only connect knows which product is behind a role", rel, inner)
			}
		}
	}
}

func TestTheRootPackageNeedsTheStandardLibraryOnly(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != module {
			continue
		}
		for _, i := range p.Imports {
			if first, _, _ := strings.Cut(i, "/"); strings.Contains(first, ".") {
				t.Errorf("the root package imports %s", i)
			}
		}
	}
}
