package analytics

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Audit is the proof that nothing is missing.
type Audit struct {
	System    string `json:"system"`
	Accepted  uint64 `json:"accepted"`
	Delivered uint64 `json:"delivered"`
	Skipped   uint64 `json:"skipped"`
	Dead      uint64 `json:"dead"`
	InFlight  uint64 `json:"in_flight"`
	Lost      uint64 `json:"lost"`
	Balanced  bool   `json:"balanced"`

	Letters deadletter.Account `json:"dead_letters"` // what became of the dead
	Damaged int                `json:"damaged"`      // dead without a dead letter: found damaged at the source, and kept apart there
	Stored  int64              `json:"stored"`       // rows in the warehouse, counted there
	Removed int64              `json:"removed"`      // rows that the warehouse had, and removed by age or size
	Faults  []string           `json:"faults"`       // what does not add up, in words
}

var errNoBooks = errors.New("analytics: its source keeps no books")

// Audit reads the books of the source, of the dead letters and of the warehouse, which are
// written independently, and compares them.
func (s *System) Audit(ctx context.Context) (Audit, error) {
	// In this order: what happens meanwhile only makes the later numbers larger.
	books, err := s.books(ctx)
	if err != nil {
		return Audit{}, err
	}
	dead, err := s.letters.(tidemill.Bookkeeper).Books(ctx)
	if err != nil {
		return Audit{}, err
	}
	damaged := 0
	if s.parts.Damaged != nil {
		if damaged, err = s.parts.Damaged(ctx); err != nil {
			return Audit{}, err
		}
	}
	stored, err := s.parts.Warehouse.Count(ctx, uuid.Nil)
	if err != nil {
		return Audit{}, err
	}
	var removed int64
	if t, ok := s.parts.Warehouse.(warehouse.Trimmer); ok {
		if removed, err = t.Removed(ctx); err != nil {
			return Audit{}, err
		}
	}
	a := Audit{System: Name, Accepted: books.Accepted, Delivered: books.Settled.Delivered, Skipped: books.Settled.Skipped,
		Dead: books.Settled.Dead, InFlight: books.Pending, Lost: books.Lost, Stored: stored, Removed: removed, Damaged: damaged, Faults: []string{},
		Letters: deadletter.AccountOf(dead)}
	fault := func(wrong bool, what string) {
		if wrong {
			a.Faults = append(a.Faults, what)
		}
	}
	fault(books.Off() > 0, "events are missing: fewer ended or are in flight than were accepted")
	fault(books.Off() < 0, "events were counted twice: more ended or are in flight than were accepted")
	fault(books.Lost > 0, "events were lost at the source")
	fault(dead.Off() != 0, "dead letters do not add up: put is not held + replayed + discarded")
	lettered := a.Dead - min(a.Dead, uint64(damaged))
	fault(dead.Accepted < lettered, "events are dead without a letter")
	// A dead letter whose settlement was lost can be replayed before its event comes again and
	// is delivered too. Such an event is in both books, and once in the warehouse.
	both := max(int64(a.Letters.Put)-int64(lettered), 0)
	f, ok := s.parts.Warehouse.(warehouse.Forgetter)
	fault(!(ok && f.Forgets()) && stored+removed < int64(a.Delivered+a.Letters.Replayed)-both, "events were delivered that the warehouse does not have")
	a.Balanced = len(a.Faults) == 0
	return a, nil
}
