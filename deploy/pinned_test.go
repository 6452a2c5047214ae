package deploy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	named  = regexp.MustCompile(`(?m)^\s*(?:image: |-? *uses: )(\S+)`)
	pinned = regexp.MustCompile(`@(sha256:[0-9a-f]{64}|[0-9a-f]{40})$`)
)

// Images of others are named by their digest, actions of GitHub by their commit: a tag may
// point to something else tomorrow.
func TestForeignImagesAreNamedByTheirDigest(t *testing.T) {
	found := 0
	for _, file := range buildFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range named.FindAllStringSubmatch(string(text), -1) {
			name := n[1]
			if strings.HasPrefix(name, "${TIDEMILL_IMAGE:-ghcr.io/tidemill/tidemill}:") || strings.HasPrefix(name, "./") {
				continue
			}
			found++
			if !pinned.MatchString(name) {
				t.Errorf("%s names %s without its digest: docker buildx imagetools inspect %[2]s", file, name)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d images were looked at, and there were ten", found)
	}
}

// buildFiles are those that name images and actions. The chart's image is chosen at its
// installation.
func buildFiles(t *testing.T) []string {
	var files []string
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "node_modules" || name == "helm" || name == "bin" || name == "venv"):
			return fs.SkipDir
		case strings.HasPrefix(name, "compose") && strings.HasSuffix(name, ".yaml"), strings.HasPrefix(path, ".github/") && strings.HasSuffix(name, ".yml"):
			files = append(files, filepath.Join("..", path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
