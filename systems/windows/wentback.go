package windows

import (
	"context"
	"fmt"
	"sync"

	"github.com/tidemill/tidemill"
)

// A store of windows that is emptied, restored or failed over to a copy that is behind knows
// nothing of what it has lost, and its own books balance. Two that were kept elsewhere tell: the
// books as this instance saw them last, and those of the intakes.

// memory is what was known of the store's books.
type memory struct {
	mu   sync.Mutex // guards the fields below
	last tidemill.Books
	gone uint64 // records that the store has lost without knowing it, or knew before it went back
	knew uint64 // records that it knew to be lost, at the most since it went back
	told uint64 // records that were said to be lost
}

// watch compares the store's books with what they were: records that they had in windows, and
// do not know any more, are lost.
func (s *System) watch(ctx context.Context) error {
	keeper, ok := s.sources[Delivered].(tidemill.Bookkeeper)
	if !ok {
		return nil
	}
	now, err := keeper.Books(ctx)
	if err != nil {
		return fmt.Errorf("read the books of windows: %w", err)
	}
	s.memory.mu.Lock()
	last, lost := s.memory.last, uint64(0)
	if now.Accepted < last.Accepted {
		lost = min(last.Pending, last.Accepted-now.Accepted)
		s.memory.gone += lost + s.memory.knew
		s.memory.knew = 0
	}
	s.memory.last = now
	s.memory.mu.Unlock()
	if now.Accepted < last.Accepted {
		s.o.Log.ErrorContext(ctx, "the window store went back: it was emptied, restored or failed over; records that waited in it are lost, send them again",
			"records", lost, "accepted before", last.Accepted, "accepted now", now.Accepted)
	}
	return nil
}

// lost is how many records, at the least, are lost: those that the store knows of, and those
// that it has lost under this instance without knowing it. (What came between two looks makes
// up for as many.) It never falls, also where the store has forgotten what it knew.
func (s *System) lost(known uint64) uint64 {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.memory.knew = max(s.memory.knew, known)
	s.memory.told = max(s.memory.told, s.memory.gone+known)
	return s.memory.told
}

// forgotten says in words what intakes have stored, and the store's books do not know.
func (s *System) forgotten(ctx context.Context, stored uint64) (fault string, err error) {
	keeper, ok := s.sources[Delivered].(tidemill.Bookkeeper)
	if !ok {
		return "", nil
	}
	windows, err := keeper.Books(ctx) // after those of intakes, which may not be ahead of it
	if err != nil {
		return "", fmt.Errorf("audit %s: read the books: %w", Delivered, err)
	}
	if windows.Accepted >= stored {
		return "", nil
	}
	return fmt.Sprintf("intakes have stored %d records of which the books of windows know nothing: the store was emptied, restored, or is another one; of them those are lost that were not delivered before",
		stored-windows.Accepted), nil
}
