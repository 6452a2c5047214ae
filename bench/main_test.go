package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/bench/rounds"
)

func TestEachBenchmarkIsListedAndTeaches(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), nil, &out); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, b := range all {
		if seen[b.Name] || b.About == "" || !strings.Contains(out.String(), "  "+b.Name+" ") {
			t.Errorf("%s is there twice, says nothing of itself, or is not listed:\n%s", b.Name, &out)
		}
		seen[b.Name] = true
		if err := b.Run(context.Background(), []string{"-h"}); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s -h: %v", b.Name, err)
		}
		if err := b.Run(context.Background(), []string{"-rounds", "0"}); err == nil {
			t.Errorf("%s measures no rounds", b.Name)
		}
	}
}

func TestWhatCannotBeMeasured(t *testing.T) {
	for want, args := range map[string][]string{
		`there is no benchmark "none"`: {"none"},
		"lists has no parts":           {"lists", "part", "x"},
		"want who plays":               {"crm", "part"},
		"want who plays, and":          {"queue", "part"},
		"compare wants two files":      {"compare", "one"},
		"tables wants a page":          {"tables"},
	} {
		if err := run(t.Context(), args, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// TestTablesOfTheDocsAreThoseOfTheResults holds that each was made of the files that are kept.
func TestTablesOfTheDocsAreThoseOfTheResults(t *testing.T) {
	for _, name := range []string{"docs/performance.md", "docs/scale.md"} {
		page, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		made, err := rounds.Tables(page, "results")
		if err != nil || !bytes.Equal(made, page) {
			t.Errorf("%s has tables that are not of bench/results (%v): go run ./bench tables %[1]s", name, err)
		}
	}
}
