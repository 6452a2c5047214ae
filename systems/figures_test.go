package systems_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/plan"
	"github.com/tidemill/tidemill/systems"
)

// The figures of plans are those of the pages, row by row: what changes there has to change here.
func TestFiguresAreThoseOfThePages(t *testing.T) {
	var pages string
	for _, name := range []string{"../docs/performance.md", "../bench/README.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages += string(text)
	}
	for _, s := range systems.All() {
		if len(s.Figures) == 0 {
			t.Errorf("nothing was measured of %s", s.Name)
		}
		for _, f := range s.Figures {
			if len(f.Rows) == 0 || f.Source == "" || f.Limit == "" || f.Breaks == "" {
				t.Errorf("%s on %q has no rows, source, limit or what happens beyond it", s.Name, f.Servers)
			}
			for _, row := range f.Rows {
				if !strings.Contains(pages, row) {
					t.Errorf("%s on %q: no page has %q", s.Name, f.Servers, row)
				}
			}
			p, err := plan.Of(plan.Asked{System: s.Name, Servers: f.Servers, Rate: 10, Waiting: time.Hour}, s.Figures)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := json.Marshal(p); err != nil || strings.Contains(string(b), "null") {
				t.Errorf("%s %v", b, err)
			}
		}
	}
}
