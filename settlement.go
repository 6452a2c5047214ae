package tidemill

import (
	"iter"
	"time"
)

// Fate is how a message ended. A retry is not a fate: the message comes back.
type Fate uint8

// The fates. None is the zero value: not yet.
const (
	None      Fate = iota
	Delivered      // durable at its destination
	Skipped        // ended on purpose, with a reason: filtered, duplicate, no route, consent…
	Dead           // given up, kept as a dead letter
)

// String returns the fate as it is written in books, metrics and answers.
func (f Fate) String() string {
	return [...]string{"none", "delivered", "skipped", "dead"}[min(f, Dead)]
}

// End says how a delivery ends. Every message handed out gets exactly one.
type End uint8

const (
	// Done ends the message: it has a Fate.
	Done End = iota
	// Again wants it handed out again, After a time. CountTry says whether that counts a try.
	Again
	// Left leaves it pending: an outside ack will come, it was shed from a buffer, or time
	// was up. The source stops renewing its lease.
	Left
)

// A Settlement tells a source how one delivery ended.
type Settlement struct {
	ID       string        // of the message
	Mark     Mark          // as handed out; zero: by ID alone, under any lease (outside acks)
	End      End           //
	Fate     Fate          // Done: how
	After    time.Duration // Again: not before this has passed
	CountTry bool          // Again: it was a failed try (not: breaker open, limit, stop)
	Kind     Kind          // of the failure, where there was one
	Cause    string        // the failure, or the reason of a skip, in words
	Answer   []byte        // Dead: the destination's answer, kept by a source that parks; nil: not known
	Next     []*Message    // messages to add in the same transaction; only where Traits.Forwards
	Records  Count         // the ends of the records that one message stands for; zero: one, by Fate
	Outcome  Outcome       // the source's answer
}

// Row is what this settlement adds to the books once it is Applied.
func (s *Settlement) Row() Count {
	switch {
	case s.End != Done:
		return Count{}
	case s.Records != Count{}:
		return s.Records
	case s.Fate == Delivered:
		return Count{Delivered: 1}
	case s.Fate == Skipped:
		return Count{Skipped: 1}
	case s.Fate == Dead:
		return Count{Dead: 1}
	}
	return Count{}
}

// ByIDFirst yields the indexes of ends in the order in which a source applies the ends of one
// call: first those by ID alone, then those with a mark, each group as given. See [Source].
func ByIDFirst(ends []Settlement) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, byID := range [...]bool{true, false} {
			for i := range ends {
				if (ends[i].Mark == Mark{}) == byID && !yield(i) {
					return
				}
			}
		}
	}
}

// Outcome is a source's answer to one settlement.
type Outcome uint8

const (
	// Unanswered: not applied yet; it may be sent again.
	Unanswered Outcome = iota
	// Applied: this settlement ended the delivery, and the books say so.
	Applied
	// Stale: the lease was lost, or the message was settled before; nothing was changed.
	Stale
)
