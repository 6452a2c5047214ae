package deadletter_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidemill/tidemill/state/deadletter"
)

func TestACauseWithoutItsNumbers(t *testing.T) {
	for _, c := range [][2]string{
		{"", ""},
		{"no route", "no route"},
		{"answered 503 after 1.25s", "answered # after #.#s"},
		{"order 0c5f1d3e-9b1a-4d0e-8f57-aa11bb22cc33 is gone", "order # is gone"},
		{"order deadbeef is cafe", "order deadbeef is cafe"}, // words
		{"hash 9f86d081884c7d65: row12 of table_7", "hash #: row# of table_#"},
		{"2026-03-01T12:00:00Z: late", "#-#-#T#:#:#Z: late"},
		{"größer als 10 €", "größer als # €"},
		{"broken \xff byte 1", "broken \uFFFD byte #"},
	} {
		if got := deadletter.CommonCause(c[0]); got != c[1] {
			t.Errorf("%q is %q, want %q", c[0], got, c[1])
		}
	}
	for i := range 4 {
		long := deadletter.CommonCause(strings.Repeat("x", i) + strings.Repeat("€ ", 300))
		if len(long) > deadletter.MaxCommon || len(long) < deadletter.MaxCommon-3 || !utf8.ValidString(long) {
			t.Errorf("a long cause has %d bytes: %q", len(long), long)
		}
	}
}

func TestTheLargestGroupsAreKept(t *testing.T) {
	var g deadletter.Groups
	for i := range deadletter.MaxGroups + 10 {
		g.Groups = append(g.Groups, deadletter.Group{Pipeline: fmt.Sprint(i), Count: 1 + i})
	}
	g.Other = 7
	if g.Largest(); len(g.Groups) != deadletter.MaxGroups || g.Groups[0].Count != deadletter.MaxGroups+10 || g.Other != 7+55 {
		t.Errorf("%d groups, the first of %d, %d others", len(g.Groups), g.Groups[0].Count, g.Other)
	}
}
