package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoCodeInThePagesCompiles puts each Go block into its program in testdata, in place of the
// line // BLOCK, and compiles it as a package of this module.
func TestGoCodeInThePagesCompiles(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, file := range pages(t) {
		for _, st := range readSteps(t, file) {
			if st.kind != "go" {
				continue
			}
			blocks++
			program, err := os.ReadFile(filepath.Join("testdata", st.name))
			if err != nil {
				t.Fatalf("%s:%d: %v", file, st.line, err)
			}
			code := strings.Replace(string(program), "\t// BLOCK\n", strings.ReplaceAll(st.text, "\n…\n", "\n"), 1)
			if code == string(program) {
				t.Fatalf("testdata/%s has no line // BLOCK", st.name)
			}
			dir := t.TempDir()
			source, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
			pkg := filepath.Join("test", "docs", "compiled")
			replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, pkg, "main.go"): source}})
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{source: code, overlay: string(replace)} {
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("go", "build", "-overlay", overlay, "-o", os.DevNull, "./"+filepath.ToSlash(pkg))
			cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0") // as it is elsewhere, also where races are looked for
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s:%d does not compile: %v\n%s", file, st.line, err, out)
			}
		}
	}
	if blocks == 0 {
		t.Error("no page has Go code: nothing was compiled")
	}
}
