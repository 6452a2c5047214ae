package analytics

import (
	"testing"

	"github.com/tidemill/tidemill"
)

func TestResultsOfReplays(t *testing.T) {
	done := func(f tidemill.Fate, k tidemill.Kind) tidemill.Settlement {
		return tidemill.Settlement{Fate: f, Kind: k, Outcome: tidemill.Applied}
	}
	away, refused, good := done(tidemill.Dead, tidemill.Transient), done(tidemill.Dead, tidemill.Validation), done(tidemill.Delivered, 0)
	stale := away
	stale.Outcome = tidemill.Stale
	unburnt := tidemill.Settlement{End: tidemill.Again, Kind: tidemill.Transient, Outcome: tidemill.Applied}
	for _, c := range []struct {
		name    string
		batches [][]tidemill.Settlement
		failed  int
		worked  bool
	}{
		{"a batch that failed is one failure", [][]tidemill.Settlement{{away, away}}, 1, false},
		{"one letter that failed makes its batch fail", [][]tidemill.Settlement{{good, away}}, 1, false},
		{"failures add up", [][]tidemill.Settlement{{away}, {away}}, 2, false},
		{"a success forgets the failures before it", [][]tidemill.Settlement{{away}, {good}}, 0, true},
		{"and not those after it", [][]tidemill.Settlement{{good}, {away}}, 1, true},
		{"what is refused blames nobody, and proves nothing", [][]tidemill.Settlement{{refused}}, 0, false},
		{"what came too late does not count", [][]tidemill.Settlement{{stale}}, 0, false},
		{"what was not tried does not count", [][]tidemill.Settlement{{unburnt}}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r results
			for _, b := range c.batches {
				r.settled(b)
			}
			if failed, worked := r.take(); failed != c.failed || worked != c.worked {
				t.Errorf("%d failed, worked %v; want %d, %v", failed, worked, c.failed, c.worked)
			}
			if failed, worked := r.take(); failed != 0 || worked {
				t.Errorf("told twice: %d failed, worked %v", failed, worked)
			}
		})
	}
}
