package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

func Example() {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := run(ctx, os.Stdout, "", ""); err != nil {
		fmt.Println(err)
	}
	// Output:
	// evt-1 accepted
	// evt-2 accepted
	// evt-3 accepted
	// evt-4 accepted
	// evt-5 rejected
	// evt-1 duplicate
	// evt-2 duplicate
	// evt-3 duplicate
	// evt-4 duplicate
	// evt-5 rejected
	// evt-1 begun 1 times: COMPLETED
	// evt-2 begun 2 times: COMPLETED
	// evt-3 begun 1 times: FAILED, business
	// evt-4 begun 1 times: FAILED, skipped
	// dead: evt-3, business: handle: cancel: nobody has booked anything
	// accepted 4 = delivered 2 + skipped 1 + dead 1, balanced: true
}

func TestTheSecondRunOnRedisKnowsAll(t *testing.T) {
	knowsAll(t, "", testenv.Start(t, testenv.PrivateRedis).URL)
}

func TestTheSecondRunInAFileKnowsAll(t *testing.T) {
	knowsAll(t, filepath.Join(t.TempDir(), "club.db"), "")
}

func knowsAll(t *testing.T, file, redis string) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var said [2]strings.Builder
	for i := range said {
		if err := run(ctx, &said[i], file, redis); err != nil {
			t.Fatalf("run %d: %v\n%s", i+1, err, said[i].String())
		}
	}
	if s := said[0].String(); strings.Count(s, " accepted\n") != 4 || !strings.Contains(s, "dead: evt-3, business") {
		t.Errorf("the first run said\n%s", s)
	}
	first, second := ends(said[0].String()), ends(said[1].String())
	if strings.Contains(said[1].String(), " accepted\n") || first != second {
		t.Errorf("the second run knew not all: it said\n%s\nafter the first had said\n%s", second, first)
	}
}

// ends are what became of events in the end: all behind the answers to send.
func ends(said string) string {
	_, end, _ := strings.Cut(said, "evt-1 begun")
	return end
}
