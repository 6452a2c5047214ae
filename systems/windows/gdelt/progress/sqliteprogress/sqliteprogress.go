// Package sqliteprogress remembers files in the one SQLite file.
package sqliteprogress

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
)

// Store implements progress.Store for one feed.
type Store struct {
	db   *sqlitedb.DB
	feed string
	now  func() time.Time
}

var _ progress.Store = (*Store)(nil)

// Forgotten files leave their counts in gdelt_past. seq is shared by all feeds, so that no
// number is reused.
var schema = []string{`
CREATE TABLE gdelt_file(
	number INTEGER PRIMARY KEY AUTOINCREMENT,
	feed TEXT NOT NULL,
	name TEXT NOT NULL,
	place TEXT NOT NULL,
	size INTEGER NOT NULL,
	mod INTEGER NOT NULL,   -- milliseconds
	sum BLOB NOT NULL,
	count INTEGER NOT NULL, -- rows that are records
	idless INTEGER NOT NULL,
	status INTEGER NOT NULL,
	cause TEXT NOT NULL,
	ended BLOB NOT NULL,
	delivered INTEGER NOT NULL,
	skipped INTEGER NOT NULL,
	dead INTEGER NOT NULL,
	lost INTEGER NOT NULL,
	listed INTEGER NOT NULL, -- milliseconds
	UNIQUE(feed, name)
);
CREATE INDEX gdelt_file_open ON gdelt_file(feed, number) WHERE status = 1;
CREATE TABLE gdelt_past(
	feed TEXT PRIMARY KEY,
	count INTEGER NOT NULL, idless INTEGER NOT NULL,
	delivered INTEGER NOT NULL, skipped INTEGER NOT NULL, dead INTEGER NOT NULL, lost INTEGER NOT NULL,
	done INTEGER NOT NULL, broken INTEGER NOT NULL
) WITHOUT ROWID;
`}

// New opens the memory of a feed in db. now nil: time.Now.
func New(ctx context.Context, db *sqlitedb.DB, feed string, now func() time.Time) (*Store, error) {
	if feed == "" {
		return nil, errors.New("open the progress of a feed: it needs a name, which tells it from others in the database")
	}
	if now == nil {
		now = time.Now
	}
	if err := db.Migrate(ctx, "gdelt", schema); err != nil {
		return nil, fmt.Errorf("open the progress of feed %s: %w", feed, err)
	}
	return &Store{db, feed, now}, nil
}

// Add implements progress.Store.
func (s *Store) Add(ctx context.Context, f *progress.File) error {
	var number uint64
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if err := s.bury(tx, "name=? AND (status=3 OR status=2 AND (sum<>? OR lost>0))", f.Name, sum(f.Sum)); err != nil {
			return err
		}
		n, err := tx.Exec(`INSERT INTO gdelt_file(feed,name,place,size,mod,sum,count,idless,status,cause,ended,delivered,skipped,dead,lost,listed)
			VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(feed,name) DO NOTHING`,
			s.feed, f.Name, f.From, f.Size, f.Mod.UnixMilli(), sum(f.Sum), int64(f.Rows), int64(f.Idless), int64(f.Status), f.Cause, spans(f.Ended),
			int64(f.Settled.Delivered), int64(f.Settled.Skipped), int64(f.Settled.Dead), int64(f.Lost), s.now().UnixMilli())
		if err == nil && n == 0 {
			err = progress.ErrKnown
		}
		if err != nil {
			return err
		}
		return tx.QueryRow("SELECT last_insert_rowid()").Scan(&number)
	})
	if err != nil {
		return fmt.Errorf("add file %s: %w", f.Name, err)
	}
	f.Number = number
	return nil
}

// Save implements progress.Store.
func (s *Store) Save(ctx context.Context, files []*progress.File) error {
	if len(files) == 0 {
		return ctx.Err()
	}
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		for _, f := range files {
			n, err := tx.Exec(`UPDATE gdelt_file SET status=?,cause=?,ended=?,delivered=?,skipped=?,dead=?,lost=? WHERE number=? AND feed=? AND status=1`,
				int64(f.Status), f.Cause, spans(f.Ended), int64(f.Settled.Delivered), int64(f.Settled.Skipped), int64(f.Settled.Dead), int64(f.Lost), int64(f.Number), s.feed)
			if err == nil && n == 0 {
				err = progress.ErrUnknown
			}
			if err != nil {
				return fmt.Errorf("file %s: %w", f.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save %d files: %w", len(files), err)
	}
	return nil
}

// columns are all but ended, which only open files need.
const columns = "number,name,place,size,mod,sum,count,idless,status,cause,delivered,skipped,dead,lost"

type scanner interface{ Scan(...any) error }

func scan(row scanner, f *progress.File, more ...any) error {
	var mod int64
	var sum []byte
	err := row.Scan(append([]any{&f.Number, &f.Name, &f.From, &f.Size, &mod, &sum, &f.Rows, &f.Idless, &f.Status, &f.Cause,
		&f.Settled.Delivered, &f.Settled.Skipped, &f.Settled.Dead, &f.Lost}, more...)...)
	if err != nil {
		return err
	}
	f.Mod = time.UnixMilli(mod)
	for _, b := range sum {
		f.Sum = f.Sum<<8 | uint64(b)
	}
	return nil
}

// findStep is how many names one statement asks for.
const findStep = 500

// Find implements progress.Store.
func (s *Store) Find(ctx context.Context, names []string) ([]progress.File, error) {
	at := make(map[string]int, len(names))
	for i, name := range names {
		at[name] = i
	}
	all := make([]progress.File, len(names))
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for step := range slices.Chunk(names, findStep) {
			args := []any{s.feed}
			for _, name := range step {
				args = append(args, name)
			}
			rows, err := tx.Query("SELECT "+columns+" FROM gdelt_file WHERE feed=? AND name IN (?"+strings.Repeat(",?", len(step)-1)+")", args...)
			if err != nil {
				return err
			}
			for rows.Next() {
				var f progress.File
				if err := scan(rows, &f); err != nil {
					_ = rows.Close()
					return err
				}
				all[at[f.Name]] = f
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find %d files of feed %s: %w", len(names), s.feed, err)
	}
	return all, nil
}

// Open implements progress.Store.
func (s *Store) Open(ctx context.Context) ([]progress.File, error) {
	var all []progress.File
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		all, err = s.open(tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the open files of feed %s: %w", s.feed, err)
	}
	return all, nil
}

func (s *Store) open(tx *sqlitedb.Tx) (all []progress.File, err error) {
	rows, err := tx.Query("SELECT "+columns+",ended FROM gdelt_file WHERE feed=? AND status=1 ORDER BY number", s.feed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Err(), rows.Close()) }()
	for rows.Next() {
		var f progress.File
		var ended []byte
		if err := scan(rows, &f, &ended); err != nil {
			return nil, err
		}
		if f.Ended, err = progress.ParseSpans(ended); err != nil {
			return nil, fmt.Errorf("file %s: %w", f.Name, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// Listed implements progress.Store.
func (s *Store) Listed(ctx context.Context, names []string, at time.Time) error {
	for step := range slices.Chunk(names, findStep) {
		err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
			args := []any{at.UnixMilli(), s.feed, at.UnixMilli()}
			for _, name := range step {
				args = append(args, name)
			}
			_, err := tx.Exec("UPDATE gdelt_file SET listed=? WHERE feed=? AND listed<? AND name IN (?"+strings.Repeat(",?", len(step)-1)+")", args...)
			return err
		})
		if err != nil {
			return fmt.Errorf("note files of feed %s as listed: %w", s.feed, err)
		}
	}
	return ctx.Err()
}

// Forget implements progress.Store.
func (s *Store) Forget(ctx context.Context, before time.Time) (n int, err error) {
	err = s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if err := tx.QueryRow("SELECT count(*) FROM gdelt_file WHERE feed=? AND status<>1 AND listed<?", s.feed, before.UnixMilli()).Scan(&n); err != nil {
			return err
		}
		return s.bury(tx, "status<>1 AND listed<?", before.UnixMilli())
	})
	if err != nil {
		return 0, fmt.Errorf("forget files of feed %s: %w", s.feed, err)
	}
	return n, nil
}

// sums of the files that a condition chooses, in the order of gdelt_past.
const sums = `COALESCE(SUM(count),0),COALESCE(SUM(idless),0),COALESCE(SUM(delivered),0),COALESCE(SUM(skipped),0),COALESCE(SUM(dead),0),
	COALESCE(SUM(lost),0),COALESCE(SUM(status=2),0),COALESCE(SUM(status=3),0)`

// bury removes files and keeps their counts.
func (s *Store) bury(tx *sqlitedb.Tx, where string, args ...any) error {
	_, err := tx.Exec(`INSERT INTO gdelt_past(feed,count,idless,delivered,skipped,dead,lost,done,broken)
		SELECT ?,`+sums+` FROM gdelt_file WHERE feed=? AND `+where+` ON CONFLICT(feed) DO UPDATE SET
		count=count+excluded.count, idless=idless+excluded.idless, delivered=delivered+excluded.delivered, skipped=skipped+excluded.skipped,
		dead=dead+excluded.dead, lost=lost+excluded.lost, done=done+excluded.done, broken=broken+excluded.broken`, append([]any{s.feed, s.feed}, args...)...)
	if err != nil {
		return err
	}
	_, err = tx.Exec("DELETE FROM gdelt_file WHERE feed=? AND "+where, append([]any{s.feed}, args...)...)
	return err
}

// Totals implements progress.Store.
func (s *Store) Totals(ctx context.Context) (t progress.Totals, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		t = progress.Totals{}
		for _, query := range []string{
			"SELECT " + sums + " FROM gdelt_file WHERE feed=?",
			"SELECT COALESCE(SUM(count),0),COALESCE(SUM(idless),0),COALESCE(SUM(delivered),0),COALESCE(SUM(skipped),0),COALESCE(SUM(dead),0),COALESCE(SUM(lost),0),COALESCE(SUM(done),0),COALESCE(SUM(broken),0) FROM gdelt_past WHERE feed=?",
		} {
			var p progress.Totals
			if err := tx.QueryRow(query, s.feed).Scan(&p.Accepted, &p.Idless, &p.Settled.Delivered, &p.Settled.Skipped, &p.Settled.Dead, &p.Lost, &p.Done, &p.Broken); err != nil {
				return err
			}
			t.Accepted += p.Accepted
			t.Idless += p.Idless
			t.Settled.Add(p.Settled)
			t.Lost += p.Lost
			t.Done += p.Done
			t.Broken += p.Broken
		}
		open, err := s.open(tx)
		for i := range open {
			t.Open++
			t.Pending += open[i].Pending()
		}
		return err
	})
	if err != nil {
		return progress.Totals{}, fmt.Errorf("count the files of feed %s: %w", s.feed, err)
	}
	return t, nil
}

// sum is stored as bytes: an integer of SQLite has a sign.
func sum(n uint64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(n >> (56 - 8*i))
	}
	return b
}

func spans(s progress.Spans) []byte { return s.Append([]byte{}) }
