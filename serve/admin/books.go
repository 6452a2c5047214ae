package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

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

// read reads the books of all, those first that were counted longest ago.
func (r *bookReader) read(ctx context.Context) (all []booksOf, err error) {
	longest := func(a, b string) int { return cmp.Or(r.balanced[a].Compare(r.balanced[b]), cmp.Compare(a, b)) }
	var spent time.Duration
	sources := r.of()
	for _, name := range slices.SortedFunc(maps.Keys(sources), longest) {
		of, at, now := sources[name], r.balanced[name], r.now()
		_, known := of.(tidemill.Counter)
		known = known && !at.IsZero()
		again := known && now.Sub(at) >= countEvery && spent < countAgain
		b := booksOf{pipeline: name}
		if known && !again {
			b.Books, err = counters(ctx, of)
			b.Pending = uint64(max(b.Off(), 0)) // what is left
		} else {
			b.Books, err = of.Books(ctx)
			b.off = b.Off()
		}
		if err != nil {
			return nil, err
		}
		if again {
			spent += r.now().Sub(now)
		}
		if b.off != 0 {
			delete(r.balanced, name)
		} else if again || !known {
			r.balanced[name] = now
		}
		_, b.letters = deadletter.PipelineOf(of)
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b booksOf) int { return strings.Compare(a.pipeline, b.pipeline) })
	return all, nil
}

// counters are the books by counters alone, where a source has them.
func counters(ctx context.Context, of tidemill.Bookkeeper) (tidemill.Books, error) {
	if c, ok := of.(tidemill.Counter); ok {
		return c.Counters(ctx)
	}
	return of.Books(ctx)
}
