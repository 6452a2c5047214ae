package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/gofiles"
)

// generalRooms are those that know systems by their registration alone.
func generalRooms(rel string) bool {
	dir := filepath.ToSlash(filepath.Dir(rel))
	top, _, _ := strings.Cut(dir, "/")
	return slices.Contains([]string{"config", "serve", "cmd", "cli", "connect"}, top)
}

// naming finds the systems that a file names: by importing what is theirs, or in a text that is a
// name, or a path in the settings.
func naming(name string, src any, systems []string) (found []string, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			return true
		}
		for _, s := range systems {
			of := func(room string) bool {
				rest, in := strings.CutPrefix(text, module+"/"+room+"/"+s)
				return in && (rest == "" || rest[0] == '/')
			}
			path, below := strings.CutPrefix(text, s+".")
			if (text == s || below && !strings.Contains(path, " ") || of("systems")) && !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
		return true
	})
	slices.Sort(found)
	return found, nil
}

// TestSystemsAreNamedByTheirRegistration holds that no file outside a system's own folder names one,
// but for the registration, systems/systems.go, and tests.
func TestSystemsAreNamedByTheirRegistration(t *testing.T) {
	root := filepath.Join("..", "..")
	entries, err := os.ReadDir(filepath.Join(root, "systems"))
	if err != nil {
		t.Fatal(err)
	}
	var systems []string
	for _, e := range entries {
		if e.IsDir() {
			systems = append(systems, e.Name())
		}
	}
	err = gofiles.Walk(root, nil, func(rel, file string) error {
		if !generalRooms(rel) {
			return nil
		}
		found, err := naming(file, nil, systems)
		if len(found) > 0 {
			t.Errorf("%s names %q: ask a system by its registration (connect/system)", rel, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNamesOfSystemsAreSeen(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{`import "` + module + `/systems/crm"`, "crm"},
		{`import x "` + module + `/systems/crm/crmconfig"`, "crm"},
		{`var a = "bridge"`, "bridge"},
		{"var a = `bridge.mqtt.qos`", "bridge"},
		{`var a, b = "delivery.partners", "crm"`, "crm delivery"},
		{`var a = "the bridge. A word of it"`, ""},
		{`var a = "bridge. A sentence"`, ""},
		{`import "` + module + `/systems/crmother"`, ""},
		{`var bridge = "bridges"`, ""},
		{`import "` + module + `/connect/system"`, ""},
	} {
		found, err := naming("planted.go", "package planted; "+c.code, []string{"analytics", "bridge", "crm", "delivery", "windows"})
		if got := strings.Join(found, " "); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.code, got, err, c.want)
		}
	}
}
