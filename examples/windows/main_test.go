package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func Example() {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := run(ctx, os.Stdout, ""); err != nil {
		fmt.Println(err)
	}
	// Output:
	// event 1 : new
	// mention 1_https://example.com/a 1: new
	// event 2 : new
	// mention 1_https://example.com/a 4: new
	// event 1 : known, and replaced
	// event 3 : new
	// found in events: 1
	// found in events: 3
	// found in mentions: 1_https://example.com/a_1
	// found in mentions: 1_https://example.com/a_4
	// windows-delivery: accepted 5 = delivered 4 + skipped 1 + dead 0
	// index-events: accepted 2 = delivered 2 + skipped 0 + dead 0
	// index-mentions: accepted 2 = delivered 2 + skipped 0 + dead 0
	// balanced: true
}

// The second run brings the same records again: they are delivered again, under the same keys,
// so the index has each of them once.
func TestTheSecondRunInAFileFindsTheSame(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	file := filepath.Join(t.TempDir(), "news.db")
	var found [2]string
	for i := range found {
		var said strings.Builder
		if err := run(ctx, &said, file); err != nil {
			t.Fatalf("run %d: %v\n%s", i+1, err, said.String())
		}
		for line := range strings.Lines(said.String()) {
			if strings.HasPrefix(line, "found ") {
				found[i] += line
			}
		}
		if want := fmt.Sprintf("accepted %d = delivered %d + skipped %d + dead 0", 5*(i+1), 4*(i+1), i+1); !strings.Contains(said.String(), want) || !strings.Contains(said.String(), "balanced: true") {
			t.Errorf("run %d says\n%s\nwant %s", i+1, said.String(), want)
		}
	}
	if found[0] != found[1] || strings.Count(found[0], "\n") != 4 {
		t.Errorf("found\n%s, then\n%s", found[0], found[1])
	}
}
