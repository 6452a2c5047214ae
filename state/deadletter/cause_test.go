package deadletter

import (
	"strings"
	"testing"
	"unicode/utf8"
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
		{"a line\r\nof 2\n", "a line\nof #\n"},
		{"größer als 10 €", "größer als # €"},
		{"broken \xff byte 1", "broken \uFFFD byte #"},
	} {
		if got := CommonCause(c[0]); got != c[1] {
			t.Errorf("%q is %q, want %q", c[0], got, c[1])
		}
	}
	for i := range 4 {
		long := CommonCause(strings.Repeat("x", i) + strings.Repeat("€ ", 300))
		if len(long) > MaxCommon || len(long) < MaxCommon-3 || !utf8.ValidString(long) {
			t.Errorf("a long cause has %d bytes: %q", len(long), long)
		}
	}
}
