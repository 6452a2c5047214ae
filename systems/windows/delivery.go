package windows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// deliveries is the pipeline whose messages are windows. After a failure a window is kept as it
// is and tried again later; after Options.Tries it is parked whole. While nothing at all can be
// written no try is counted.
func (s *System) deliveries() flow.Pipeline {
	p := s.pipeline(Delivered, s.p.Windows.Open())
	p.Lanes, p.InFlight = s.o.AtOnce, s.o.AtOnce
	away, own := policy.Rule{Do: policy.Retrying, Blames: true}, policy.Rule{Do: policy.Retrying, CountTry: true}
	p.Rules = policy.Table{
		tidemill.Transient: away, tidemill.Timeout: away, tidemill.Unknown: away, // what was sent is sent again, under the same keys
		tidemill.Partner: own, tidemill.Validation: own, tidemill.Business: own, tidemill.NotFound: own,
	}
	p.Retry = policy.Retry{Tries: s.o.Tries - 1, Base: s.o.Retry, Factor: 2, Max: time.Minute}
	p.Breaker, p.Handouts = s.o.Breaker, handouts
	p.Work = func(flow.Env) flow.Work { return &delivering{s: s} }
	return p
}

// ofProcessor is what an error of the chain means for the window. If a processor failed, the
// topics are not down. While its service is left alone no try is counted.
func ofProcessor(err error) error {
	failed, ok := errors.AsType[*process.Failed](err)
	if !ok {
		return err
	}
	if after, alone := failed.Alone(); alone {
		return &tidemill.Error{Kind: tidemill.RateLimit, After: after, Err: failed}
	}
	return tidemill.Fail(tidemill.Partner, "%w", failed)
}

// delivering is the work of one lane: windows one after the other, page by page.
type delivering struct {
	s       *System
	records []window.Record
	items   []process.Item
	parts   [2]part // one is sent while the other is made

	saw func(*window.Record, *process.Item, *tidemill.Message) // is shown each record, and what is sent of it or nil; nil: nobody looks
}

// Do implements flow.Work.
func (l *delivering) Do(ctx context.Context, batch []*flow.Task) error {
	for _, t := range batch {
		if !t.Live() {
			continue
		}
		count, err := l.window(ctx, t)
		if err != nil {
			t.Fail(err)
			continue
		}
		t.Tally(count)
	}
	return nil
}

// window delivers one window. If a delivery is atomic and a record of it is refused, the
// delivery begins anew without that record.
func (l *delivering) window(ctx context.Context, t *flow.Task) (tidemill.Count, error) {
	refused := map[string]error{} // by the id of their messages
	for {
		before := len(refused)
		count, err := l.attempt(ctx, t, refused)
		if err == nil || !l.s.p.Out.Whole() || len(refused) == before || ctx.Err() != nil {
			return count, err
		}
	}
}

// attempt delivers a window without the refused records. If it returns an error and refused has
// grown, the delivery begins anew.
func (l *delivering) attempt(ctx context.Context, t *flow.Task, refused map[string]error) (count tidemill.Count, err error) {
	x := l.s.sending(t.ID, record.ParseBatch(string(t.Key)))
	x.refused, x.task, x.of = refused, t, t.Trace
	if x.delivery, err = l.s.p.Out.Begin(ctx); err != nil {
		return count, fmt.Errorf("begin to deliver window %s: %w", x.window, err)
	}
	defer x.delivery.Abort(ctx)
	if replays := t.Mark.Hi; replays > 0 {
		x.again = fmt.Sprintf(".%d", replays)
	}
	defer x.wait() // nothing outlives the attempt
	run := l.s.chain.Load().Begin(x.batch.ID())
	if l.records == nil {
		l.records, l.items = make([]window.Record, l.s.o.Page), make([]process.Item, l.s.o.Page)
	}
	for n, from := 0, ""; ; n++ {
		page, err := l.s.p.Windows.Page(ctx, t.Mark, from, l.records)
		if err != nil {
			return count, fmt.Errorf("read window %s: %w", x.window, err)
		}
		part := &l.parts[n%2]
		if err := l.process(ctx, run, page.N, x, part); err != nil {
			return count, fmt.Errorf("process window %s: %w", x.window, ofProcessor(err))
		}
		if err := x.wait(); err != nil { // for the part before
			return count, err
		}
		x.send(ctx, part)
		if from = page.Next; from == "" {
			break
		}
	}
	if err := x.wait(); err != nil {
		return count, err
	}
	results, err := run.End(ctx)
	if err != nil {
		return count, fmt.Errorf("process window %s: %w", x.window, ofProcessor(err))
	}
	if err := x.results(ctx, results); err != nil {
		return count, err
	}
	if l.s.p.Out.Whole() { // an instance that stalled or was cut off must not commit what another delivers
		if _, err := l.s.p.Windows.Page(ctx, t.Mark, "", l.records[:1]); err != nil {
			return count, fmt.Errorf("commit window %s: %w", x.window, err)
		}
	}
	if err := x.delivery.Commit(ctx); err != nil {
		return count, fmt.Errorf("commit window %s: %w", x.window, err)
	}
	return x.count, nil
}

// process makes the next part of a window from its next records.
func (l *delivering) process(ctx context.Context, run *process.Run, n int, x *sending, p *part) error {
	p.reset()
	items := l.items[:0]
	for i := range n {
		r := &l.records[i]
		kind, err := record.ParseKind(r.Kind)
		switch {
		case r.Damaged != "":
			p.die(x, r, tidemill.Fail(tidemill.Validation, "its stored bytes are damaged: %s", r.Damaged))
			continue
		case err != nil:
			p.die(x, r, tidemill.Fail(tidemill.Validation, "%w", err))
			continue
		}
		it := &l.items[len(items)]
		it.Kind, it.Raw = kind, r.Body
		l.records[len(items)] = *r
		items = l.items[:len(items)+1]
	}
	if err := run.Page(ctx, items); err != nil {
		return ofProcessor(err)
	}
	for i := range items {
		it, r := &items[i], &l.records[i]
		var sent *tidemill.Message
		switch it.Fate {
		case tidemill.Skipped:
			p.count.Skipped++
		case tidemill.Dead:
			p.die(x, r, tidemill.Fail(it.Fault, "%s", it.Why))
		default:
			if p.add(x, r, it); len(p.messages) > 0 {
				sent = p.messages[len(p.messages)-1]
			}
		}
		if l.saw != nil {
			l.saw(r, it, sent)
		}
	}
	return nil
}
