// Package leases is what sources share that hand out each message under a lease of its own: the book
// of what is out, and what a settlement must say.
package leases

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/tidemill/tidemill"
)

// A Book is the hand-outs whose leases a source renews until they are settled: by their marks, each
// with the key of its record, where the mark does not tell it. The zero value is empty. It is safe for
// concurrent use.
type Book struct {
	mu  sync.Mutex // guards out
	out map[tidemill.Mark]string
}

// Add notes a hand-out. key is "" where nobody asks for it.
func (b *Book) Add(m tidemill.Mark, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out == nil {
		b.out = map[tidemill.Mark]string{}
	}
	b.out[m] = key
}

// Key is the key of a hand-out; false: it is not in the book.
func (b *Book) Key(m tidemill.Mark) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, ok := b.out[m]
	return key, ok
}

// Forget takes hand-outs out: those that were settled, and those whose lease another has. One that was
// handed out anew has another mark, and stays.
func (b *Book) Forget(marks ...tidemill.Mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range marks {
		delete(b.out, m)
	}
}

// Out is all hand-outs, in order of shard, position and lease, and the key of each.
func (b *Book) Out() (marks []tidemill.Mark, keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	marks = slices.SortedFunc(maps.Keys(b.out), func(x, y tidemill.Mark) int {
		return cmp.Or(cmp.Compare(x.Shard, y.Shard), cmp.Compare(x.Hi, y.Hi), cmp.Compare(x.Lo, y.Lo), cmp.Compare(x.Epoch, y.Epoch))
	})
	for _, m := range marks {
		keys = append(keys, b.out[m])
	}
	return marks, keys
}

// Check refuses settlements without a meaning. It returns an error of kind tidemill.Internal.
func Check(ends []tidemill.Settlement) error {
	for i := range ends {
		if s := &ends[i]; s.End == tidemill.Done && s.Fate == tidemill.None || s.End > tidemill.Left || s.Fate > tidemill.Dead {
			return tidemill.Fail(tidemill.Internal, "settle %q: it is done without a fate", s.ID)
		}
	}
	return nil
}
