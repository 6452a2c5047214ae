package deadletter

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
)

// Audit is the books of a pipeline's source beside those of its dead letters, each counted
// independently.
type Audit struct {
	Accepted  uint64  `json:"accepted"`
	Delivered uint64  `json:"delivered"`
	Skipped   uint64  `json:"skipped"`
	Dead      uint64  `json:"dead"`
	InFlight  uint64  `json:"in_flight"`
	Lost      uint64  `json:"lost"`
	Letters   Account `json:"dead_letters"`
}

// AuditOf reads both books. what names the source's messages in a word: jobs, records. The
// faults say in words what does not add up.
func AuditOf(ctx context.Context, source, letters tidemill.Bookkeeper, what string) (a Audit, faults []string, err error) {
	// In this order: changes in between make the later numbers larger, never smaller.
	books, err := source.Books(ctx)
	if err != nil {
		return a, nil, fmt.Errorf("read the books: %w", err)
	}
	dead, err := letters.Books(ctx)
	if err != nil {
		return a, nil, fmt.Errorf("read the books of the dead letters: %w", err)
	}
	a = Audit{Accepted: books.Accepted, Delivered: books.Settled.Delivered, Skipped: books.Settled.Skipped, Dead: books.Settled.Dead,
		InFlight: books.Pending, Lost: books.Lost, Letters: AccountOf(dead)}
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	fault(books.Off() > 0, "%d %s are missing: fewer ended or are in flight than were accepted", books.Off(), what)
	fault(books.Off() < 0, "%d %s were counted twice: more ended or are in flight than were accepted", -books.Off(), what)
	fault(books.Lost > 0, "%d %s were lost at the source", books.Lost, what)
	fault(dead.Off() != 0, "dead letters do not add up: put is not held + replayed + discarded, by %d", dead.Off())
	return a, faults, nil
}
