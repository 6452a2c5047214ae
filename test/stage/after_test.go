package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWhatPassedWhollyIsLeftOut runs a module without servers, and then as a stage that has them.
func TestWhatPassedWhollyIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/m\n\ngo 1.26\n")
	write(t, dir, "a/a_test.go", `package a

import "testing"

func TestWhole(t *testing.T) { t.Run("part", func(t *testing.T) {}) }
func TestSkips(t *testing.T) { t.Skip("no server") }
func TestSkipsAPart(t *testing.T) { t.Run("part", func(t *testing.T) { t.Skip("no server") }) }
func TestDoesWithout(t *testing.T) { t.Run("part", func(t *testing.T) { t.Attr("servers", "none") }) }
func TestColour(t *testing.T) { t.Attr("colour", "red") }
func TestOfTwo(t *testing.T) {}
func TestOfTwoWholly(t *testing.T) {}
func ExampleWhole() {
	// Output:
}
`)
	write(t, dir, "b/b_test.go", `package b

import "testing"

func TestOfTwo(t *testing.T) { t.Skip("no server") }
func TestOfTwoWholly(t *testing.T) {}
`)
	tool, err := toolPath(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ran := func(s stage) (names []string) {
		t.Helper()
		s.packages, s.dir, s.gotestsum, s.out = []string{"./..."}, dir, tool, t.Output()
		if err := s.run(t.Context(), day); err != nil {
			t.Fatal(err)
		}
		events, err := os.ReadFile(filepath.Join(dir, "bin", "tests", s.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(events)) {
			var e struct{ Action, Package, Test string }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			if e.Action == "run" {
				names = append(names, strings.TrimPrefix(e.Package, "example.com/m/")+"."+e.Test)
			}
		}
		slices.Sort(names)
		return names
	}
	const all = 13
	if first := ran(stage{name: "servers", after: "race"}); len(first) != all {
		t.Errorf("without a run before, these run: %q", first)
	}
	if before := ran(stage{name: "race"}); len(before) != all {
		t.Errorf("before, these run: %q", before)
	}
	want := []string{"a.TestDoesWithout", "a.TestDoesWithout/part", "a.TestOfTwo", "a.TestSkips", "a.TestSkipsAPart", "a.TestSkipsAPart/part", "b.TestOfTwo"}
	if got := ran(stage{name: "servers", after: "race"}); !slices.Equal(got, want) {
		t.Errorf("on servers these run:\n%q, want\n%q", got, want)
	}
}
