package tabletest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/table"
)

// Link is a connection to the server that can lose answers: testenv.Link.
type Link interface {
	// LoseAnswers lets requests arrive, and closes each connection after this many more bytes
	// of answers.
	LoseAnswers(bytes int)
	// Heal lets new connections live.
	Heal()
}

// Lost holds what a transaction of two tables leaves whose answers are lost on the way: it is
// done or not, as a whole and once, and the tables go on. far opens tables behind the link, and
// near beside it.
func Lost[Raw any](t *testing.T, link Link, far, near Harness[Raw]) {
	t.Run("whose commit is not answered", func(t *testing.T) {
		p := openPair(t, far, near)
		const times, most = 12, 200 // on a busy machine the link may heal before an answer was lost
		for i := 0; i < times || i < most && p.number(t) == p.done && !t.Failed(); i++ {
			var healing sync.WaitGroup
			returned, before, lose := make(chan struct{}), p.number(t), new(sync.Once)
			err := p.add(t.Context(), func() {
				lose.Do(func() {
					link.LoseAnswers(i % 3)
					healing.Go(func() { // soon, so that a repetition would be done too
						p.until(t, before+1, returned)
						link.Heal()
					})
				})
			})
			close(returned)
			healing.Wait()
			if k := tidemill.KindOf(err); err != nil && k != tidemill.Transient && k != tidemill.Timeout {
				t.Errorf("Update: %v is %v, want a transient error", err, k)
			}
			p.goesOn(t)
		}
		p.check(t)
		if p.found <= p.done {
			t.Errorf("of %d commits without an answer none was done: it was not the answer that was lost", p.unknown)
		}
	})
	t.Run("at any byte of the answers", func(t *testing.T) {
		p := openPair(t, far, near)
		for i := range 40 {
			link.LoseAnswers(i * 25)
			_ = p.add(t.Context(), func() {})
			link.Heal()
			p.goesOn(t)
		}
		p.check(t)
	})
}

// pair is two tables that each have the record "a" with the same number.
type pair[Raw any] struct {
	far, near           Harness[Raw]
	here, there         table.Store[Record, Raw] // behind the link
	nearHere, nearThere table.Store[Record, Raw]
	done, unknown       int // transactions without an error, and with one
	found               int // the number at the end
}

func openPair[Raw any](t *testing.T, far, near Harness[Raw]) *pair[Raw] {
	t.Helper()
	p := &pair[Raw]{far: far, near: near}
	here, there := Spec(newName()), Spec(newName())
	for _, open := range []struct {
		of   *table.Store[Record, Raw]
		h    Harness[Raw]
		spec table.Spec[Record]
	}{{&p.nearHere, near, here}, {&p.nearThere, near, there}, {&p.here, far, here}, {&p.there, far, there}} {
		s, err := open.h.Open(t.Context(), open.spec)
		if err != nil {
			t.Fatal(err)
		}
		*open.of = s
	}
	p.goesOn(t) // what the connection learns at first is no part of the test
	return p
}

// number is the one of the first table, seen beside the link.
func (p *pair[Raw]) number(t *testing.T) (n int) {
	t.Helper()
	if err := p.nearHere.View(t.Context(), func(tx table.Reader[Record]) error {
		found, err := tx.Get([]string{"a"})
		if err == nil {
			n = found["a"].Tries
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	return n
}

// until waits for the number, or the end.
func (p *pair[Raw]) until(t *testing.T, n int, end <-chan struct{}) {
	for p.number(t) != n && !t.Failed() {
		select {
		case <-end:
			return
		default:
		}
	}
}

// add adds 1 to both numbers, and calls last before the transaction is committed.
func (p *pair[Raw]) add(ctx context.Context, last func()) error {
	err := p.here.Update(ctx, func(tx table.Tx[Record], raw Raw) error {
		there := p.far.In(p.there, raw)
		if err := errors.Join(add(tx, "a", 1), add(there, "a", 1)); err != nil {
			return err
		}
		last()
		return nil
	})
	if p.unknown++; err == nil {
		p.unknown--
		p.done++
	}
	return err
}

// goesOn holds that a transaction can be done, soon.
func (p *pair[Raw]) goesOn(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := p.add(t.Context(), func() {})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no transaction is done: %v", err)
		}
	}
}

// check holds that each transaction was done as a whole: once without an error, at most once
// with one.
func (p *pair[Raw]) check(t *testing.T) {
	t.Helper()
	if err := p.nearHere.Update(t.Context(), func(tx table.Tx[Record], raw Raw) error {
		one, err1 := tx.Get([]string{"a"})
		two, err2 := p.near.In(p.nearThere, raw).Get([]string{"a"})
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if p.found = one["a"].Tries; p.found != two["a"].Tries {
			t.Errorf("one table has %d and the other %d", p.found, two["a"].Tries)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if p.found < p.done || p.found > p.done+p.unknown {
		t.Errorf("%d transactions are there; %d returned nil and %d an error", p.found, p.done, p.unknown)
	}
}
