package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// What is held is counted so often, as that takes longer the more there is. In between counters say
// how a pipeline goes on.
const (
	countEvery = time.Minute
	countAgain = 10 * time.Millisecond // at a reading; the others have their turn at the next
)

// booksOf are the books of a pipeline.
type booksOf struct {
	pipeline string
	tidemill.Books
	off     int64 // Books.Off when what it holds was last counted
	letters bool  // they are those of its dead letters
}

// bookReader reads the books of a system's pipelines. One reading follows the other.
type bookReader struct {
	of       func() map[string]tidemill.Bookkeeper // now
	now      func() time.Time
	balanced map[string]time.Time // when each was counted; none: never, or its books did not balance
}

// together is how many counters are read at a time: servers answer requests that wait together with
// less work than one by one.
const together = 16

// read reads the books of all. Those are counted first that were longest ago.
func (r *bookReader) read(ctx context.Context) (all []booksOf, err error) {
	longest := func(a, b string) int { return cmp.Or(r.balanced[a].Compare(r.balanced[b]), cmp.Compare(a, b)) }
	sources := r.of()
	names := slices.SortedFunc(maps.Keys(sources), longest)
	all = make([]booksOf, len(names))
	var spent time.Duration
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(together)
	for i, name := range names {
		of, at, now := sources[name], r.balanced[name], r.now()
		b := &all[i]
		b.pipeline = name
		_, b.letters = deadletter.PipelineOf(of)
		counter, known := of.(tidemill.Counter)
		known = known && !at.IsZero()
		again := known && now.Sub(at) >= countEvery && spent < countAgain
		if known && !again {
			reading.Go(func() (err error) {
				b.Books, err = counter.Counters(ctx)
				b.Pending = uint64(max(b.Off(), 0)) // what is left
				return err
			})
			continue
		}
		if b.Books, err = of.Books(ctx); err != nil {
			break
		}
		b.off = b.Off()
		if again {
			spent += r.now().Sub(now)
		}
		if b.off != 0 {
			delete(r.balanced, name)
		} else if again || !known {
			r.balanced[name] = now
		}
	}
	if err := cmp.Or(reading.Wait(), err); err != nil { // the first is why the other was given up
		return nil, err
	}
	slices.SortFunc(all, func(a, b booksOf) int { return strings.Compare(a.pipeline, b.pipeline) })
	return all, nil
}
