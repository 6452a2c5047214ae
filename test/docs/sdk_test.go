package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/tidemill/tidemill/internal/golden"
)

const (
	sdkFolder = "../sdk"
	sdkPage   = "../../docs/testing.md"
)

var (
	sdkTable = regexp.MustCompile(`(?m)^\| SDK \| version \| of \|\n\|---\|---\|---\|\n(?:\|.*\n)*`)
	pinned   = regexp.MustCompile(`^([A-Za-z0-9._-]+)==(\S+)$`)
)

// noSDK are in the set-up and send no events.
var noSDK = []string{"axe-core", "playwright-core", "puppeteer-core"}

// TestTheTableOfSDKsIsThatOfTheTests compares the table in docs/testing.md with the lock files
// of test/sdk. -update writes it.
func TestTheTableOfSDKsIsThatOfTheTests(t *testing.T) {
	rows := slices.Concat(npmSDKs(t), goSDKs(t), pythonSDKs(t))
	slices.Sort(rows)
	want := "| SDK | version | of |\n|---|---|---|\n" + strings.Join(rows, "")
	page := string(readFile(t, sdkPage))
	got := sdkTable.FindString(page)
	if got == want {
		return
	}
	if golden.Update() && got != "" {
		if err := os.WriteFile(sdkPage, []byte(strings.Replace(page, got, want, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s has\n%s\nbut the tests have\n%s\n(-update writes it)", sdkPage, got, want)
}

func sdkRow(name, version, of string) string {
	return fmt.Sprintf("| %s | %s | %s |\n", name, version, of)
}

func npmSDKs(t *testing.T) (rows []string) {
	t.Helper()
	var wanted struct{ Dependencies map[string]string }
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	for name, into := range map[string]any{"package.json": &wanted, "package-lock.json": &lock} {
		if err := json.Unmarshal(readFile(t, filepath.Join(sdkFolder, name)), into); err != nil {
			t.Fatal(err)
		}
	}
	for name := range wanted.Dependencies {
		version := lock.Packages["node_modules/"+name].Version
		if version == "" {
			t.Errorf("%s is not in the lock file", name)
		}
		if !slices.Contains(noSDK, name) {
			rows = append(rows, sdkRow(name, version, "npm"))
		}
	}
	return rows
}

func goSDKs(t *testing.T) (rows []string) {
	t.Helper()
	mod, err := modfile.Parse("go.mod", readFile(t, filepath.Join(sdkFolder, "go", "go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if !r.Indirect {
			rows = append(rows, sdkRow(r.Mod.Path, strings.TrimPrefix(r.Mod.Version, "v"), "Go"))
		}
	}
	return rows
}

func pythonSDKs(t *testing.T) (rows []string) {
	t.Helper()
	for line := range strings.Lines(string(readFile(t, filepath.Join(sdkFolder, "requirements.txt")))) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := pinned.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("requirements.txt: %q has no version", line)
			continue
		}
		rows = append(rows, sdkRow(m[1], m[2], "PyPI"))
	}
	return rows
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
