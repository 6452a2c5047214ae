package archtest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// allowed are the licences of modules in the binary, by their SPDX names.
var allowed = []string{"Apache-2.0", "MIT", "MIT-0", "ISC", "BSD-2-Clause", "BSD-3-Clause", "MPL-2.0"}

// systems are the systems that binaries are built for: each has modules of its own.
var systems = []string{"linux", "windows", "darwin"}

var licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|aplv2)`)

// TestLicencesAreReviewed compares the modules in the binary with licences.txt, which has each
// one's licence, and a checksum of the licence files. A new module or a changed text fails
// until somebody has read it.
func TestLicencesAreReviewed(t *testing.T) {
	list, err := os.ReadFile("licences.txt")
	if err != nil {
		t.Fatal(err)
	}
	reviewed := map[string]string{} // the line behind a module's path
	for line := range strings.Lines(string(list)) {
		if module, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && module != "#" {
			reviewed[module] = rest
		}
	}
	for module, dir := range shipped(t) {
		rest, ok := reviewed[module]
		delete(reviewed, module)
		licence, sum, _ := strings.Cut(rest, " ")
		switch now := licenceSum(t, dir); {
		case !ok:
			t.Errorf("%s is new in the binary: read its licence, and add to licences.txt: %[1]s LICENCE %s", module, now)
		case !slices.Contains(allowed, licence):
			t.Errorf("%s has the licence %s, and only these are allowed: %s", module, licence, strings.Join(allowed, ", "))
		case sum != now:
			t.Errorf("%s has another text of its licence than the one that was read: read it, and write in licences.txt: %[1]s %s %s", module, licence, now)
		}
	}
	for module := range reviewed {
		t.Errorf("%s is in licences.txt and in no binary: take it out", module)
	}
}

// shipped are the folders of all modules in the binary for any system.
func shipped(t *testing.T) map[string]string {
	dirs := map[string]string{}
	for _, system := range systems {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./cmd/tidemill")
		cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if module, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
				dirs[module] = dir
			}
		}
	}
	return dirs
}

func licenceSum(t *testing.T, dir string) string {
	files, err := fs.ReadDir(os.DirFS(dir), ".")
	if err != nil {
		t.Fatal(err)
	}
	sum, found := sha256.New(), false
	for _, f := range files {
		if f.IsDir() || !licenceFile.MatchString(f.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = sum.Write(text)
		found = true
	}
	if !found {
		t.Errorf("%s has no file with a licence", dir)
	}
	return fmt.Sprintf("%.6x", sum.Sum(nil))
}
