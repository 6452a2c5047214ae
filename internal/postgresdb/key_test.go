package postgresdb

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "a", "a\x00", "\xff", "~bytes:", "~bytes:00", strings.Repeat("é", 400), strings.Repeat("x", 401)} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ka, wa := Key(a, 400)
		kb, wb := Key(b, 400)
		if Name(ka, wa) != a || Name(kb, wb) != b {
			t.Errorf("Name does not bring back %q or %q", a, b)
		}
		if (ka == kb) != (a == b) {
			t.Errorf("keys of %q and %q are %q and %q", a, b, ka, kb)
		}
		if !utf8.ValidString(ka) || strings.Contains(ka, "\x00") || utf8.RuneCountInString(ka) > 400 {
			t.Errorf("the key %q of %q fits no column", ka, a)
		}
	})
}
