//go:build unix

package docs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/golden"
	"github.com/tidemill/tidemill/internal/testenv"
)

// pages are the files whose blocks are run.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	return append(found, filepath.Join("..", "..", "README.md"))
}

func readSteps(t *testing.T, file string) []step {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found, err := steps(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return found
}

func TestWhatThePagesShowIsWhatHappens(t *testing.T) {
	testenv.Need(t)
	testenv.Install(t, "prometheus") // promtool
	for _, file := range pages(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".md"), func(t *testing.T) {
			t.Parallel()
			var s *session
			var edits []edit
			var servers []string // of the session that begins with the next step
			end := func() {
				if s == nil {
					return
				}
				if err := s.endAll(); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				s = nil
			}
			defer func() { rewrite(t, file, edits) }() // even if a later step fails
			for _, st := range readSteps(t, file) {
				switch st.kind {
				case "skip", "go":
					continue
				case "session":
					end()
					servers = strings.Fields(st.name)
					continue
				}
				if s == nil {
					s = begin(t, servers)
					servers = nil
				}
				err := s.run(st)
				if d := (*difference)(nil); golden.Update() && errors.As(err, &d) {
					edits = append(edits, edit{st, d.got})
					continue
				}
				if err != nil {
					t.Fatalf("%s:%d: %s\n%v", file, st.line, st.text, err)
				}
			}
			end()
		})
	}
}

// edit is another output for a step.
type edit struct {
	step
	got []string
}

// rewrite puts other outputs into a page, the last first.
func rewrite(t *testing.T, file string, edits []edit) {
	t.Helper()
	if len(edits) == 0 {
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, e := range slices.Backward(edits) {
		for i := range e.got {
			e.got[i] = strings.TrimRight(e.indent+e.got[i], " ")
		}
		lines = slices.Replace(lines, e.at-1, e.at-1+len(e.output), e.got...)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEveryPageCanBeRead(t *testing.T) {
	for _, file := range pages(t) {
		readSteps(t, file)
	}
}
