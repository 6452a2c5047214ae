package admin_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
)

// longLetters takes a tenth of a second for each letter, so that none but the first are counted in time.
type longLetters struct{ deadletter.Store }

func (s longLetters) List(ctx context.Context, f deadletter.Filter) iter.Seq2[*deadletter.Letter, error] {
	return func(yield func(*deadletter.Letter, error) bool) {
		for l, err := range s.Store.List(ctx, f) {
			if time.Sleep(100 * time.Millisecond); ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

func (s longLetters) Count(ctx context.Context, f deadletter.Filter) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.Store.Count(ctx, f)
}

func TestWhatCannotBeCountedInTimeIsNotTakenForWhatIsExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := &bulkDesk{letters: letters, store: tablebulk.Memory()}
		d.desk = newDesk(t, admin.Parts{Letters: longLetters{letters}, Bulk: d.store, Once: tableledger.Memory(tableledger.Options{})})
		d.dies("p", "shop", tidemill.Timeout, 0, 30)
		if p := d.preview("what=dead.delete&pipeline=p"); !p.AtLeast || p.Count >= 20 {
			t.Fatalf("%d were counted, at least %t", p.Count, p.AtLeast)
		}
		for _, query := range []string{"expect_at_most=20", "expect_at_most=20000", "max=25&expect_at_most=20"} {
			refused(t, d.starting("what=dead.delete&pipeline=p&"+query), 409, "or more match")
		}
		if o := d.start("what=dead.delete&pipeline=p&max=20&expect_at_most=20"); o.State != "scheduled" {
			t.Errorf("as many as are expected: %s", o.State)
		}
	})
}
