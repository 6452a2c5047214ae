package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayName are the files outside a system's own folders that name systems, and which. They are to
// become fewer: what is here yet is to be asked of the system by its registration in connect's table.
var mayName = map[string]string{
	"serve/admin/admin.go":        "analytics windows",
	"serve/admin/crm.go":          "crm",
	"serve/admin/crmevent.go":     "crm",
	"serve/admin/crmprofile.go":   "crm",
	"serve/admin/crmreplay.go":    "crm",
	"serve/admin/dead.go":         "crm delivery",
	"serve/admin/delivery.go":     "crm delivery",
	"serve/admin/letter.go":       "analytics crm delivery",
	"serve/admin/queues.go":       "delivery",
	"serve/admin/search.go":       "windows",
	"serve/admin/show.go":         "analytics",
	"serve/admin/windows.go":      "windows",
	"serve/admin/windowsend.go":   "windows",
	"serve/admin/windowsfiles.go": "windows",
	"serve/admin/windowsof.go":    "windows",
	"serve/api/analytics.go":      "analytics",
	"serve/api/windows.go":        "windows",
}

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

// TestSystemsAreNamedByTheirRegistration holds that no further file outside a system's own folders
// names one, and that a file that no longer does leaves the list.
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
	seen := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); d.IsDir() || !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") || !generalRooms(rel) {
			return nil
		}
		found, err := naming(path, nil, systems)
		if err != nil {
			return err
		}
		if folder := filepath.ToSlash(filepath.Dir(rel)) + "/"; mayName[folder] != "" {
			rel = folder
		}
		seen[rel] = seen[rel] || len(found) > 0
		if got := strings.Join(found, " "); got != mayName[rel] && (got != "" || !strings.HasSuffix(rel, "/")) {
			t.Errorf("%s names %q, and mayName has %q: ask a system by its registration, and take out of mayName what is named no more", rel, got, mayName[rel])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for rel := range mayName {
		if !seen[rel] {
			t.Errorf("%s names no system: take it out of mayName", rel)
		}
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
