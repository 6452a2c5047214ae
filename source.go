package tidemill

import (
	"context"
	"errors"
	"time"
)

// A Source hands out messages and is told how each ended. The engine calls Receive from one
// goroutine and Settle from another, each never concurrently with itself; both may run at
// the same time.
//
// A source promises (package source/sourcetest holds each promise against a backend):
//   - an accepted message is handed out until a settlement ends it, also after a crash;
//   - exactly one settlement of a message is Applied with End Done;
//   - the books change in the same transaction as the settlement, never without it;
//   - a settlement under a lost lease is Stale and changes nothing;
//   - an end by ID alone wins over a settlement in the same call that would keep its message
//     pending (Left, Again), in either order.
type Source interface {
	// Receive fills messages of into, oldest first, and returns how many. It waits for the
	// first one; when ctx ends it returns early with ctx's error. (0, ErrFlush) asks the
	// engine to finish what it holds. Any other error is transient: the engine waits and
	// asks again.
	Receive(ctx context.Context, into []*Message) (int, error)
	// Settle makes the ends durable, each with its row in the books, and sets Outcome of each.
	// After an error those left Unanswered may be sent again; those Applied before stay so.
	Settle(ctx context.Context, ends []Settlement) error
	// Traits say what the source can do. They never change.
	Traits() Traits
}

// Traits are a source's abilities as data, so that no wrapper can lose them and
// preflight can print them.
type Traits struct {
	Delays   bool          // can bring a message back after a time (Settlement.After)
	Parks    bool          // keeps its own dead messages: no dead letter is put before Settle
	Forwards bool          // adds Settlement.Next in the same transaction
	Ordered  bool          // never hands out a message while an older one of its key is handed out or waits
	Keep     time.Duration // Keep is to be called this often; 0: never
}

// A Keeper is a source whose leases run out.
type Keeper interface {
	// Keep renews the leases of all messages that were handed out and not settled.
	Keep(ctx context.Context) error
}

// A Gater is a source that can hold back deliveries for all instances, as a breaker and a
// pause need.
type Gater interface {
	// Gate hands out nothing until then, and after that at most probes messages at a time,
	// until it is called again. The zero time opens the gate. Messages handed out before
	// the call, also probes of an earlier call, do not count among these.
	Gate(ctx context.Context, until time.Time, probes int) error
}

// A Bookkeeper reads the durable books of a source.
type Bookkeeper interface {
	Books(ctx context.Context) (Books, error)
}

// A Counter is a Bookkeeper that can also read its counters alone, at a cost that does not grow with
// what it holds.
type Counter interface {
	// Counters are the books without Pending, which is 0 as nobody counts.
	Counters(ctx context.Context) (Books, error)
}

// Bookkeepers returns the named sources that keep books.
func Bookkeepers(sources map[string]Source) map[string]Bookkeeper {
	all := map[string]Bookkeeper{}
	for name, source := range sources {
		if b, ok := source.(Bookkeeper); ok {
			all[name] = b
		}
	}
	return all
}

// ErrFlush is what Receive returns to ask the engine to finish what it holds.
var ErrFlush = errors.New("tidemill: finish what is held")

// A Sink makes messages durable at a destination outside the engine.
type Sink interface {
	// Write delivers the batch. Nil means that every message is durable there; a *Partial
	// names those that are not. Write does not retry: the pipeline decides that. It may be
	// called from several goroutines and keeps nothing of batch.
	Write(ctx context.Context, batch []*Message) error
}

// DeadLetters is what the engine needs of the store of dead letters.
type DeadLetters interface {
	// Put makes the dead letters durable before it returns. One with the same pipeline and
	// message ID as a stored one replaces it and keeps its history: a message never has
	// two. A *Partial names those that cannot be kept: their messages stay pending at their
	// source, and die again when they are handed out again. Any other error is repeated.
	Put(ctx context.Context, letters []DeadLetter) error
	// Has says for each mark whether its message has a dead letter. The engine asks for
	// redelivered messages: the dead letter is the fate, even if the settlement was lost.
	Has(ctx context.Context, pipeline string, ids []string, marks []Mark) ([]bool, error)
}

// A Letter is a dead letter to be kept: a message given up, with the reason.
type DeadLetter struct {
	Pipeline string    // that gave it up
	Message  *Message  // payload as received
	Kind     Kind      // of the last failure
	Cause    string    // the last failure in words
	Tries    int       // failed tries, the last one included
	Row      []byte    // what the work had made of it so far, so that a replay need not repeat it; may be nil
	At       time.Time // when it died
}
