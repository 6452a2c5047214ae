package tabletest

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill/state/table"
)

func specCases[Raw any]() []testcase[Raw] {
	type spec = table.Spec[Record]
	type field = table.Field[Record]
	return []testcase[Raw]{
		{"refuses specs that cannot be kept, and says why", "a mistake of a role is found at its first start", func(t *testing.T, w *world[Raw]) {
			for _, c := range []struct {
				want   string // in the error
				change func(s *spec)
			}{
				{`invalid name of a table "A"`, func(s *spec) { s.Name = "A" }},
				{"invalid name of a table", func(s *spec) { s.Name = strings.Repeat("a", 33) }},
				{"want the key and at least one more", func(s *spec) { s.Fields = s.Fields[:1] }},
				{`invalid name of a field "a b"`, func(s *spec) { s.Fields[1].Name = "a b" }},
				{`invalid name of a field "_a"`, func(s *spec) { s.Fields[1].Name = "_a" }},
				{"two fields have the name state", func(s *spec) { s.Fields[1].Name = "state" }},
				{"field group has no At", func(s *spec) { s.Fields[1].At = nil }},
				{"field group is a *float64; want *string", func(s *spec) { s.Fields[1].At = func(*Record) any { return new(float64) } }},
				{"the fields key and group are the same", func(s *spec) { s.Fields[1].At = s.Fields[0].At }},
				{"the key group is a *uint8; want *string", func(s *spec) {
					s.Fields[0] = field{Name: "group", At: func(r *Record) any { return &r.State }}
					s.Fields = append(s.Fields[:1:1], s.Fields[4:]...)
				}},
				{`invalid name of a order ""`, func(s *spec) { s.Orders[0].Name = "" }},
				{"two orders have the name state", func(s *spec) { s.Orders[0].Name = "state" }},
				{`order at is by "color", which is no field`, func(s *spec) { s.Orders[0].By = []string{"color"} }},
				{"order at is by 0 fields; want 1 to 3", func(s *spec) { s.Orders[0].By = nil }},
				{"order at is by 4 fields; want 1 to 3", func(s *spec) { s.Orders[0].By = []string{"at", "state", "no", "flag"} }},
				{"order at names the key", func(s *spec) { s.Orders[0].By = []string{"at", "key"} }},
				{"order at names the field at twice", func(s *spec) { s.Orders[0].By = []string{"at", "at"} }},
				{`the counter reads "color", which is no field`, func(s *spec) { s.Count.From = []string{"color"} }},
				{"a counter has both Of and From", func(s *spec) { s.Count.Of = nil }},
				{"a counter has both Of and From", func(s *spec) { s.Count.From = nil }},
				{`expiry is by "color", which is no field`, func(s *spec) { s.Expires = "color" }},
				{"expiry is by tries, a *int; want *time.Time", func(s *spec) { s.Expires = "tries" }},
				{"expiry is by until, which is the first field of no order", func(s *spec) { s.Orders = s.Orders[:2] }},
				{`invalid name of a view "A"`, func(s *spec) { s.Views = []table.View{{Name: "A", SQLite: "SELECT 1", Postgres: "SELECT 1"}} }},
				{"has the name of the table", func(s *spec) { s.Views = []table.View{{Name: s.Name, SQLite: "SELECT 1", Postgres: "SELECT 1"}} }},
				{"has no SELECT", func(s *spec) { s.Views = []table.View{{Name: "v", SQLite: "SELECT 1"}} }},
				{"has no SELECT", func(s *spec) { s.Views = []table.View{{Name: "v", Postgres: "SELECT 1"}} }},
			} {
				s := Spec(newName())
				c.change(&s)
				if _, err := w.Harness.Open(t.Context(), s); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want one with %q", err, c.want)
				}
			}
		}},
		{"keeps tables apart", "two roles have the same key", func(t *testing.T, w *world[Raw]) {
			other := open(t, w.Harness)
			w.put(t, &Record{Key: "a", State: 1})
			other.put(t, &Record{Key: "a", State: 2})
			same(t, w.get(t, "a"), &Record{Key: "a", State: 1})
			other.counted(t, map[string]int{"/2": 1})
			other.remove(t, "a")
			w.counted(t, map[string]int{"/1": 1})
		}},
	}
}
