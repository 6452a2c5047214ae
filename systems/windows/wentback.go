package windows

import (
	"context"
	"fmt"
	"sync"

	"github.com/tidemill/tidemill"
)

// A window store that is emptied, restored or failed over to an older copy knows nothing of
// what it has lost, and its own books balance. Two other books tell: the store's as this
// instance last saw them, and those of the intakes.

// memory is what was known of the store's books.
type memory struct {
	mu   sync.Mutex // guards the fields below
	last tidemill.Books
	gone uint64 // records that the store lost without knowing it, or knew before it went back
	knew uint64 // the most records that it knew to be lost since it went back
	told uint64 // records that were reported lost
}

// watch compares the store's books with what they were. Records that they had in windows, and
// no longer know, are lost.
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
		// Logged when the store of windows has accepted less than before: it was emptied, restored or
		// failed over. `before` and `after` are the records that it knew.
		// To do: send the records of that time again; make the store durable (AOF, noeviction).
		s.o.Log.ErrorContext(ctx, "the window store went back: records that waited in it are lost", "count", lost, "before", last.Accepted, "after", now.Accepted)
	}
	return nil
}

// lost is at least how many records are lost: those that the store knows of, and those that it
// lost under this instance without knowing it. (Records that came between two looks make up for
// as many.) It never falls, even if the store has forgotten what it knew.
func (s *System) lost(known uint64) uint64 {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.memory.knew = max(s.memory.knew, known)
	s.memory.told = max(s.memory.told, s.memory.gone+known)
	return s.memory.told
}

// forgotten says in words what the intakes have stored, and the store's books do not know.
func (s *System) forgotten(ctx context.Context, stored uint64) (fault string, err error) {
	keeper, ok := s.sources[Delivered].(tidemill.Bookkeeper)
	if !ok {
		return "", nil
	}
	windows, err := keeper.Books(ctx) // after those of the intakes, which may not be ahead of it
	if err != nil {
		return "", fmt.Errorf("audit %s: read the books: %w", Delivered, err)
	}
	if windows.Accepted >= stored {
		return "", nil
	}
	return fmt.Sprintf("intakes have stored %d records of which the books of windows know nothing: the store was emptied, restored, or is another one; of them those are lost that were not delivered before",
		stored-windows.Accepted), nil
}
