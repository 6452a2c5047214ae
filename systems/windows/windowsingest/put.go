package windowsingest

import (
	"context"
	"errors"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/window"
)

const (
	// putCalls are under way at once: one is made ready while the store works on the other.
	putCalls = 2
	// putSize is how much requests share in one call, each record counted as its bytes and
	// recordMemory: some thousand records of the usual size, a part of what a store takes.
	putSize = 4 << 20
)

// putting is what one request brings to a call of the store.
type putting struct {
	records []window.Record
	kept    []window.Kept
}

// size is what a call's size is measured in.
func (p *putting) size() int {
	n := len(p.records) * recordMemory
	for i := range p.records {
		n += len(p.records[i].Body)
	}
	return n
}

// gather sets up the line in which requests share calls.
func (h *Handler) gather() {
	h.line.Calls, h.line.Most, h.line.Size = putCalls, putSize, (*putting).size
	h.line.Call = func(ctx context.Context, all []*putting) error {
		// Who leads may be gone: others are in it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.o.Timeout)
		defer cancel()
		if len(all) == 1 {
			return h.o.Windows.Put(ctx, all[0].records, all[0].kept)
		}
		var records []window.Record
		for _, p := range all {
			records = append(records, p.records...)
		}
		kept := make([]window.Kept, len(records))
		if err := h.o.Windows.Put(ctx, records, kept); err != nil {
			return err
		}
		for _, p := range all {
			kept = kept[copy(p.kept, kept):]
		}
		return nil
	}
}

// errWaited is why a request's records were not stored: the calls before it took too long.
var errWaited = errors.New("the window store is too slow: the request waited for its turn for too long")

// put stores the records of a load. They are durable after a nil error; after another one
// they may be, and putting them again is safe.
func (x *exchange) put(l *load) *request.Problem {
	if len(l.records) == 0 {
		return nil
	}
	ctx, done := x.Urgent(x.R.Context(), len(l.records))
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, x.h.o.Timeout, errWaited)
	defer cancel()
	err := x.h.line.Join(ctx, &putting{l.records, l.kept[:len(l.records)]})
	if err == nil {
		l.stored(x)
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	x.Count(unkept, len(l.records))
	// Logged when records of a request could not be stored; their sender is answered 503.
	// To do: see whether the store of windows is up, not read-only and has room: nothing is taken in
	// meanwhile.
	x.h.o.Log.WarnContext(x.R.Context(), "records cannot be kept, their sender is asked to retry", "count", len(l.records), "batch", l.batch, "error", err)
	return request.Busy("unkept", "records cannot be kept now, please send all of the request again: what is known is a duplicate")
}
