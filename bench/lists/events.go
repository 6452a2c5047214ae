package lists

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/sqlitewarehouse"
)

var shop = uuid.NewSHA1(uuid.Nil, []byte("shop"))

// began is when the first stored event was sent; the others follow, some 100 ms after each other.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// storedEvent is event i: of a random id, one of 20 names and one of a twentieth as many persons.
func storedEvent(i, n int, rng *rand.Rand) *event.Event {
	who := rng.Uint64N(uint64(max(n/20, 1)))
	e := &event.Event{Project: shop, Name: nameOf(rng.Uint64N(20)), Type: "track", DistinctID: distinctOf(who), Person: personOf(who), Properties: storedProperties,
		Timestamp: began.Add(time.Duration(i)*100*time.Millisecond + time.Duration(rng.Int64N(60_000))*time.Millisecond), IngestedAt: began, Origin: uint64(i + 1)}
	binary.LittleEndian.PutUint64(e.ID[:], rng.Uint64())
	binary.LittleEndian.PutUint64(e.ID[8:], rng.Uint64())
	return e
}

func nameOf(i uint64) string { return fmt.Sprint("name ", i) }

func distinctOf(i uint64) string { return fmt.Sprintf("user-%d-%x", i, i*0x9e3779b97f4a7c15) }

func personOf(i uint64) uuid.UUID { return uuid.NewSHA1(uuid.Nil, []byte(distinctOf(i))) }

var storedProperties = []byte(fmt.Sprintf(`{"path":"/shop/%0300d"}`, 7))

// Events is the benchmark of pages of stored events.
var Events = rounds.Bench{Name: "events", About: "pages of 50 among stored events, by each filter, on SQLite", Run: runEvents}

func runEvents(ctx context.Context, args []string) (err error) {
	n := 0
	o, err := rounds.Parse("events", 1, args, func(f *flag.FlagSet) { f.IntVar(&n, "n", 1_000_000, "stored events") })
	if err != nil {
		return err
	}
	folder, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	db, err := sqlitedb.Open(ctx, filepath.Join(folder, "events.db"), sqlitedb.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := sqlitewarehouse.New(ctx, db, sqlitewarehouse.Options{})
	if err != nil {
		return err
	}
	start := time.Now()
	rng := rand.New(rand.NewPCG(1, 2))
	if err := each(n, func(from, to int) error {
		rows := make([]*event.Event, 0, to-from)
		for i := from; i < to; i++ {
			rows = append(rows, storedEvent(i, n, rng))
		}
		if from%200_000 == 0 {
			if err := s.Sweep(ctx); err != nil {
				return err
			}
		}
		return s.Insert(ctx, rows, make([]warehouse.Outcome, len(rows)))
	}); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	log.Printf("filled in %v", time.Since(start).Round(time.Second))
	t := rounds.Table[result, *result]{Flags: o, Title: fmt.Sprintf("pages of %d among %d stored events", size, n), Round: func(ctx context.Context, _ int, tell func(*result)) error {
		return pagesOfEvents(ctx, s, o, n, tell)
	}}
	return t.Measure(ctx)
}

func pagesOfEvents(ctx context.Context, s *sqlitewarehouse.Store, o *rounds.Flags, n int, tell func(*result)) error {
	middle := began.Add(time.Duration(n/2) * 100 * time.Millisecond)
	for _, f := range []struct {
		name string
		warehouse.Filter
	}{
		{"all", warehouse.Filter{}},
		{"by name", warehouse.Filter{Name: nameOf(7)}},
		{"by distinct id", warehouse.Filter{Distinct: distinctOf(7)}},
		{"by person", warehouse.Filter{Person: personOf(8)}},
		{"by time", warehouse.Filter{From: middle, To: middle.Add(24 * time.Hour)}},
		{"by name and time", warehouse.Filter{Name: nameOf(7), From: middle, To: middle.Add(24 * time.Hour)}},
		{"by person and name", warehouse.Filter{Person: personOf(9), Name: nameOf(7)}},
	} {
		for _, p := range []struct {
			name   string
			oldest bool
			before time.Time // the page is of those before it; zero: from the end
		}{{"the newest", false, time.Time{}}, {"before the middle", false, middle.Add(12 * time.Hour)}, {"the oldest", true, time.Time{}}} {
			l := warehouse.Listing{Filter: f.Filter, Oldest: p.oldest}
			l.Project = shop
			if l.Max = size + 1; !p.before.IsZero() {
				l.After = warehouse.Place{At: p.before.UnixMilli()}.Key()
			}
			name := "events, " + f.name + ": " + p.name
			if !o.Wants(name) {
				continue
			}
			took, err := pageOfEvents(ctx, s, l)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			tell(read(name, took))
		}
	}
	return nil
}

// pageOfEvents reads one page 50 times, and checks it.
func pageOfEvents(ctx context.Context, s *sqlitewarehouse.Store, l warehouse.Listing) (took []time.Duration, err error) {
	for range 50 {
		start := time.Now()
		got, err := s.List(ctx, l)
		took = append(took, time.Since(start))
		if err != nil {
			return nil, err
		}
		for i, e := range got.Events {
			if !l.Match(e) || i > 0 && e.Timestamp.Before(got.Events[i-1].Timestamp) == l.Oldest && !e.Timestamp.Equal(got.Events[i-1].Timestamp) {
				return nil, fmt.Errorf("event %d does not match, or is not in order", i)
			}
		}
	}
	return took, nil
}
