package progress_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
)

// A map is the reference.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s progress.Spans
		set := map[uint64]bool{}
		for _, n := range rapid.SliceOfN(rapid.Uint64Range(0, 40), 0, 60).Draw(t, "numbers") {
			if added := s.Add(n); added == set[n] {
				t.Fatalf("adding %d to %v says %v", n, s, added)
			}
			set[n] = true
		}
		first := uint64(0)
		for n := range uint64(42) {
			if s.Has(n) != set[n] {
				t.Fatalf("%v has %d: %v", s, n, s.Has(n))
			}
			if set[n] && first == n {
				first++
			}
		}
		if s.Len() != uint64(len(set)) || s.First() != first {
			t.Fatalf("%v has %d numbers and lacks %d first, want %d and %d", s, s.Len(), s.First(), len(set), first)
		}
		for i := 1; i < len(s); i++ {
			if s[i].From <= s[i-1].To {
				t.Fatalf("%v touches itself", s)
			}
		}
		again, err := progress.ParseSpans(s.Append(nil))
		if err != nil || len(s) > 0 && !reflect.DeepEqual(again, s) {
			t.Fatalf("%v is read as %v, %v", s, again, err)
		}
	})
}

func FuzzParseSpans(f *testing.F) {
	f.Add(progress.Spans{{0, 5}, {7, 8}}.Append(nil))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := progress.ParseSpans(b)
		if err != nil {
			return
		}
		for i := range s {
			if s[i].From >= s[i].To || i > 0 && s[i].From <= s[i-1].To {
				t.Errorf("%x is read as %v", b, s)
			}
		}
	})
}
