package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var day = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// module writes a module with tests that fail the first time they run, one that always
// fails if broken, and some that pass.
func module(t *testing.T, flaky int, broken bool) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir, "go.mod", "module example.com/m\n\ngo 1.26\n")
	var b strings.Builder
	b.WriteString("package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n")
	b.WriteString("func TestGood(t *testing.T) {}\n\n")
	b.WriteString("func once(t *testing.T) {\n\tname := \"ran\" + t.Name()[4:10]\n\tif _, err := os.Stat(name); err != nil {\n\t\tos.WriteFile(name, nil, 0o644)\n\t\tt.Fatal(\"the disk was busy\")\n\t}\n}\n\n")
	for i := range flaky {
		fmt.Fprintf(&b, "func TestFlaky%d(t *testing.T) { t.Run(\"has (one) case\", once); t.Run(\"another\", func(t *testing.T) {}) }\n\n", i)
	}
	if broken {
		b.WriteString("func TestBroken(t *testing.T) { t.Fatal(\"as ever\") }\n")
	}
	write(t, dir, "m_test.go", b.String())
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// runs runs a stage over a module, and returns what it printed.
func runs(t *testing.T, dir string, again bool) (string, error) {
	t.Helper()
	tool, err := toolPath(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := stage{name: "servers", packages: []string{"./..."}, flags: []string{"-count=1"}, again: again, dir: dir, gotestsum: tool, out: &out}
	err = s.run(t.Context(), day)
	t.Log(out.String())
	return out.String(), err
}

const flakyName = "example.com/m.TestFlaky0/has_(one)_case"

func TestAFlakyTestRunsAgainAndIsListed(t *testing.T) {
	dir := module(t, 1, false)
	out, err := runs(t, dir, true)
	if err != nil {
		t.Fatalf("a test that passed when it ran again failed the stage: %v", err)
	}
	for _, want := range []string{"FLAKY: " + flakyName + " failed", "the disk was busy", "the slowest tests of servers:"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "servers ok but for 1 FLAKY: DONE 2 runs, ") {
		t.Errorf("the last line is %q, want gotestsum's summary", last)
	}
	list, err := os.ReadFile(filepath.Join(dir, flakyFile))
	if want := "2026-11-23 " + flakyName + "\n"; err != nil || string(list) != want {
		t.Errorf("the list is %q, %v, want %q", list, err, want)
	}
}

func TestAListedTestHasNoSecondChance(t *testing.T) {
	dir := module(t, 1, false)
	write(t, dir, flakyFile, "# why\n2026-11-22 "+flakyName+"\n")
	out, err := runs(t, dir, true)
	if err == nil || !strings.Contains(err.Error(), "no second chance") {
		t.Errorf("got %v, want an error: the test is in the list", err)
	}
	if !strings.Contains(out, "servers FAILED: DONE") {
		t.Error("the last line does not say that the stage failed")
	}
}

func TestWhatFailsEachTimeFailsTheStage(t *testing.T) {
	dir := module(t, 1, true)
	if _, err := runs(t, dir, true); err == nil {
		t.Error("a test that fails each time did not fail the stage")
	}
	if list, _ := readList(filepath.Join(dir, flakyFile)); len(list) != 1 || list[0] != flakyName {
		t.Errorf("the list is %q, want the flaky test and not the broken one", list)
	}
}

func TestASubtestOfAnotherNameIsNoSecondChance(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/m\n\ngo 1.26\n")
	write(t, dir, "m_test.go", "package m\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n)\n\n"+
		"func TestSeeds(t *testing.T) {\n\tt.Run(fmt.Sprint(\"seed=\", os.Getpid()), func(t *testing.T) { t.Fatal(\"as ever\") })\n}\n")
	if _, err := runs(t, dir, true); err == nil || !strings.Contains(err.Error(), "did not run again") {
		t.Errorf("got %v, want an error: what failed did not run again", err)
	}
}

func TestMoreThanFiveFailuresAreAFault(t *testing.T) {
	if _, err := runs(t, module(t, 6, false), true); err == nil {
		t.Error("six failed tests ran again")
	}
}

func TestWithoutAgainThereIsNoSecondChance(t *testing.T) {
	if _, err := runs(t, module(t, 1, false), false); err == nil {
		t.Error("a test that failed once did not fail the stage")
	}
}

func TestTheNextChangeShortensTheList(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	commit := func(list string) {
		t.Helper()
		write(t, dir, flakyFile, list)
		git("add", "-A")
		git("commit", "--allow-empty", "-q", "-m", "x")
	}
	check := func(what string, good bool) {
		t.Helper()
		if err := checkList(t.Context(), dir); (err == nil) != good {
			t.Errorf("%s: got %v", what, err)
		}
	}
	git("init", "-q", "-b", "main")
	commit("# rule\n")
	check("no commit before", true)
	commit("# rule\n2026-11-22 a.TestA\n2026-11-22 b.TestB\n")
	check("names were added", true)
	git("checkout", "-q", "-b", "change")
	commit("# rule\n2026-11-22 a.TestA\n2026-11-22 b.TestB\n2026-11-23 c.TestC\n")
	check("the list is longer", false)
	commit("# rule\n2026-11-22 a.TestA\n2026-11-23 c.TestC\n")
	check("one is mended, another found", true)
	commit("# rule\n2026-11-22 a.TestA\n2026-11-23 c.TestC\n")
	check("mended by an earlier commit of the change", true)
	git("checkout", "-q", "main")
	git("merge", "-q", "--ff-only", "change")
	commit("# rule\n2026-11-22 a.TestA\n2026-11-23 c.TestC\n")
	check("on main, nothing is mended", false)
	commit("# rule\n")
	check("on main, all are mended", true)
}
