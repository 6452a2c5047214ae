package tabletrail_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/servertest"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/table/tabletest"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/state/trail/trailtest"
)

func TestInMemory(t *testing.T) {
	trailtest.Run(t, func(*testing.T) trailtest.Harness { return trailtest.Harness{Trail: tabletrail.Memory()} })
}

// A check finds nothing wrong where the views that it reads by are begun again.
func TestWhereViewsAreBegunAgain(t *testing.T) {
	trailtest.Run(t, func(*testing.T) trailtest.Harness {
		again := tabletest.Again[tabletrail.Record, *memorytable.Tx]{Store: memorytable.Alone(tabletrail.Spec())}
		return trailtest.Harness{Trail: tabletrail.New(again)}
	})
}

// between does something after each view of a table.
type between struct {
	*memorytable.Store[tabletrail.Record]
	then func()
}

func (b *between) View(ctx context.Context, do func(table.Reader[tabletrail.Record]) error) error {
	err := b.Store.View(ctx, do)
	b.then()
	return err
}

// What is forgotten while a check reads on is not missing: an entry was read, and its end is gone.
func TestWhatIsExpiredDuringACheckIsNotMissing(t *testing.T) {
	b := &between{memorytable.Alone(tabletrail.Spec()), func() {}}
	tr := tabletrail.New(b)
	for n := range 600 { // more than a page
		seq, err := tr.Begin(t.Context(), trail.Entry{At: time.UnixMilli(int64(1000 + n))})
		if err == nil && n > 0 { // the last of the first page ends behind it
			err = tr.End(t.Context(), seq, trail.End{Outcome: trail.Done, Ended: time.UnixMilli(int64(1000 + n))})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.then = func() {
		if _, err := tr.Expire(t.Context(), time.UnixMilli(1400), 10_000); err != nil {
			t.Error(err)
		}
	}
	if c, err := tr.Check(t.Context()); err != nil || len(c.Wrong) > 0 {
		t.Errorf("%v, %q", err, c.Wrong)
	}
}

func TestInSQLite(t *testing.T) {
	trailtest.Run(t, func(t *testing.T) trailtest.Harness {
		file := sqlitedbtest.NewFile(t, sqlitedb.Options{})
		open := func() trail.Trail {
			s, err := sqlitetable.New(t.Context(), file.Open(), tabletrail.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return tabletrail.New(s)
		}
		return trailtest.Harness{Trail: open(), Reopen: open}
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	trailtest.Run(t, func(t *testing.T) trailtest.Harness {
		table := servertest.InPostgreSQL(t, url, tabletrail.Spec())
		open := func() trail.Trail { return tabletrail.New(table()) }
		return trailtest.Harness{Trail: open(), Reopen: open}
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		trailtest.Run(t, func(t *testing.T) trailtest.Harness {
			table := servertest.InRedis(t, client, tabletrail.Spec())
			open := func() trail.Trail { return tabletrail.New(table()) }
			return trailtest.Harness{Trail: open(), Reopen: open}
		})
	})
}
