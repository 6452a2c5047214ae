package leases_test

import (
	"slices"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/internal/leases"
)

func TestAHandOutIsInTheBookUntilItIsForgotten(t *testing.T) {
	var b leases.Book
	b.Forget(tidemill.Mark{Lo: 1})
	if marks, keys := b.Out(); len(marks)+len(keys) > 0 {
		t.Errorf("a new book has %v, %v", marks, keys)
	}
	first, again, other := tidemill.Mark{Lo: 2, Epoch: 1}, tidemill.Mark{Lo: 2, Epoch: 2}, tidemill.Mark{Lo: 1, Epoch: 9}
	b.Add(again, "b")
	b.Add(first, "a")
	b.Add(other, "c")
	if marks, keys := b.Out(); !slices.Equal(marks, []tidemill.Mark{other, first, again}) || !slices.Equal(keys, []string{"c", "a", "b"}) {
		t.Errorf("it has %v, %v", marks, keys)
	}
	b.Forget(first)
	if key, ok := b.Key(again); !ok || key != "b" {
		t.Errorf("with the lease before it, a hand-out went too: %q, %t", key, ok)
	}
	if key, ok := b.Key(first); ok {
		t.Errorf("what was forgotten has the key %q", key)
	}
}

func TestSettlementsThatSayNothingAreRefused(t *testing.T) {
	for _, s := range []tidemill.Settlement{{}, {End: tidemill.Left + 1, Fate: tidemill.Delivered}, {Fate: tidemill.Dead + 1}, {End: tidemill.Again, Fate: tidemill.Dead + 1}} {
		if leases.Check([]tidemill.Settlement{{Fate: tidemill.Delivered}, s}) == nil {
			t.Errorf("%+v is let pass", s)
		}
	}
	for _, s := range []tidemill.Settlement{{Fate: tidemill.Delivered}, {Fate: tidemill.Dead}, {End: tidemill.Again}, {End: tidemill.Left}} {
		if err := leases.Check([]tidemill.Settlement{s}); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
