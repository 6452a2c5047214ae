package tableledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// between does something after the first view of a table.
type between struct {
	*memorytable.Store[ledger.Record]
	then func()
}

func (b *between) View(ctx context.Context, do func(table.Reader[ledger.Record]) error) error {
	err := b.Store.View(ctx, do)
	if then := b.then; then != nil {
		b.then = nil
		then()
	}
	return err
}

// What is begun again while an Expire looks for what is over stays.
func TestWhatBeginsWhileOthersExpireStays(t *testing.T) {
	s, err := memorytable.New(memorytable.NewDB(), tableledger.Spec(""))
	if err != nil {
		t.Fatal(err)
	}
	c, b := ledgertest.NewClock(), &between{Store: s}
	l := tableledger.New(b, tableledger.Options{Now: c.Now})
	begin := func(o ledger.Begin, keys ...string) {
		for _, k := range keys {
			if err := l.Begin(t.Context(), []*ledger.Entry{{Key: k}}, o); err != nil {
				t.Error(err)
			}
		}
	}
	begin(ledger.Begin{}, "again", "over")
	c.Advance(time.Hour)
	b.then = func() { begin(ledger.Begin{}, "again") }
	if n, err := l.Expire(t.Context(), c.Now(), 0); n != 1 || err != nil {
		t.Errorf("%d are removed, %v; want 1", n, err)
	}
	left := []*ledger.Entry{{Key: "again"}, {Key: "over"}}
	if err := l.Find(t.Context(), left); err != nil || left[0].State != ledger.Running || left[1].State != 0 {
		t.Errorf("again is %v, over is %v, %v", left[0].State, left[1].State, err)
	}
}
