package sim

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/windows"
)

// arrival is one record in a topic.
type arrival struct {
	r       *report
	payload []byte
}

// topicsOnRecord are topics below everything: what comes in is recorded, and shows at once.
type topicsOnRecord struct {
	w *windowsWorld
	p *process
}

func (t topicsOnRecord) Add(_ context.Context, all []*tidemill.Message, added []queue.Added) error {
	own := make([]*tidemill.Message, len(all))
	for i, m := range all {
		c := *m
		if !t.w.names {
			t.w.offset++
			c.ID = fmt.Sprint(m.ID, "@", t.w.offset)
		}
		own[i] = &c
	}
	if added == nil {
		added = make([]queue.Added, len(all))
	}
	if err := t.w.queues.Add(context.Background(), own, added); err != nil {
		return err
	}
	var fresh []*tidemill.Message
	for i, m := range all {
		if added[i] == queue.New {
			fresh = append(fresh, m)
		}
	}
	t.w.sent(t.p, all, fresh)
	return nil
}

// windowsOut is where a process sends records.
type windowsOut struct {
	w *windowsWorld
	p *process
}

func (o windowsOut) Whole() bool { return o.w.whole }

// pinged is a windowsOut that can be pinged.
type pinged struct{ windowsOut }

func (o pinged) Ping(context.Context) error {
	return o.w.g.do(o.p, "ping", "", func() error {
		o.w.book.Lock()
		defer o.w.book.Unlock()
		if o.w.isAway() {
			return errTopicsAway
		}
		for _, x := range o.w.order {
			x.why[o.p] = x.why[o.p] || x.unless[o.p]
		}
		return nil
	})
}

func (o windowsOut) Begin(context.Context) (windows.Delivery, error) {
	if !o.w.whole {
		return &windowsDelivery{o: o}, nil
	}
	return &windowsDelivery{o: o}, o.w.g.do(o.p, "begin", "", func() error { return nil })
}

// windowsDelivery is the delivery of one window. If it is atomic, nothing of it shows before
// its commit.
type windowsDelivery struct {
	o    windowsOut
	open []*tidemill.Message
}

func (d *windowsDelivery) Write(_ context.Context, batch []*tidemill.Message) error {
	return d.o.w.g.do(d.o.p, "write", fmt.Sprint(batch[0].ID, " ", len(batch)), func() error { return d.write(batch) })
}

// write fails in every possible way: everything, records that are refused for good, those of a
// partition that is down, and a connection that breaks in the middle.
func (d *windowsDelivery) write(batch []*tidemill.Message) error {
	w := d.o.w
	w.book.Lock()
	defer w.book.Unlock()
	if w.isAway() {
		return errTopicsAway
	}
	var partly tidemill.Partial
	var good []*tidemill.Message
	passing := 0
	for i, m := range batch {
		switch r := w.of(m.Payload); {
		case r != nil && r.large && m.To != resultsOut:
			w.count[RefusedOne]++
			partly.Failed = append(partly.Failed, tidemill.Failed{Index: i, Err: tidemill.Fail(tidemill.Validation, "sim: the record is too large")})
		case m.To == resultsOut && string(m.Key) == w.verbose:
			w.count[NoResult]++
			partly.Failed = append(partly.Failed, tidemill.Failed{Index: i, Err: tidemill.Fail(tidemill.Validation, "sim: the result is too large")})
		case w.chance(30, "full", m.To, lately(5*time.Second)):
			w.count[TopicFull]++
			partly.Failed = append(partly.Failed, tidemill.Failed{Index: i, Err: queue.FullError(m.To)})
		case w.chance(60, "rights", m.To, lately(5*time.Second)):
			partly.Failed = append(partly.Failed, tidemill.Failed{Index: i, Err: tidemill.Fail(tidemill.Credentials, "sim: we may not write there")})
		case w.chance(20, "partition", m.To, m.Key, lately(6*time.Second)):
			passing++
			partly.Failed = append(partly.Failed, tidemill.Failed{Index: i, Err: tidemill.Fail(tidemill.Transient, "sim: its partition is away")})
		default:
			good = append(good, m)
		}
	}
	var err error
	if len(partly.Failed) > 0 {
		err = &partly
	}
	if w.chance(25, "cut", batch[0].ID, time.Now()) {
		good, passing, err = good[:len(good)/2], 0, tidemill.Fail(tidemill.Unknown, "sim: the line was cut")
	}
	if o := w.spanOf(batch[0].ID); o != nil && passing > 0 {
		w.count[PartFailed]++
		o.why[d.o.p] = o.why[d.o.p] || len(partly.Failed) < len(batch)
		o.unless[d.o.p] = true
	}
	if len(good) == 0 {
		return err
	}
	if w.whole {
		for _, m := range good {
			c := *m
			c.Key, c.Payload = bytes.Clone(m.Key), bytes.Clone(m.Payload)
			d.open = append(d.open, &c)
		}
		return err
	}
	if wrong := queue.Sink(topicsOnRecord{w, d.o.p}).Write(context.Background(), good); wrong != nil {
		return wrong
	}
	return err
}

var errTopicsAway = tidemill.Fail(tidemill.Transient, "sim: the topics are away")

// isAway reports that no topic accepts anything.
func (w *windowsWorld) isAway() bool { return time.Since(epoch) < w.away }

func (d *windowsDelivery) Commit(context.Context) error {
	if !d.o.w.whole {
		return nil
	}
	first := "nothing"
	if len(d.open) > 0 {
		first = d.open[0].ID
	}
	return d.o.w.g.do(d.o.p, "commit", first, func() error {
		w := d.o.w
		w.book.Lock()
		defer w.book.Unlock()
		if w.isAway() || w.chance(10, "commit", first, time.Now()) {
			return errTopicsAway
		}
		open := d.open
		if d.open = nil; len(open) == 0 {
			return nil
		}
		return queue.Sink(topicsOnRecord{w, d.o.p}).Write(context.Background(), open)
	})
}

func (d *windowsDelivery) Abort(context.Context) { d.open = nil }

// spanOf is the window of a message or a dead letter. Behind the window's id a message names
// its replay.
func (w *windowsWorld) spanOf(id string) *span {
	for _, o := range w.order {
		if name := o.name(); strings.HasPrefix(id, name+"/") || strings.HasPrefix(id, name+".") {
			return o
		}
	}
	return nil
}

// sent notes what came into topics atomically: all sent messages, and the new ones among them.
func (w *windowsWorld) sent(p *process, all, fresh []*tidemill.Message) {
	o := w.spanOf(all[0].ID)
	if o == nil {
		w.fault("process %d sent %s, which is of no window", p.n, all[0].ID)
		return
	}
	late := o.ended || o.parked || o.holder != p
	if late {
		w.count[StaleWrite]++
		if o.late[p]++; o.late[p] > 3*o.handed[p] { // the running part, the one behind it, and results
			w.fault("process %d sent %d parts of window %s when it was another's", p.n, o.late[p], o.id)
		}
	}
	for _, m := range fresh {
		if m.To != resultsOut {
			w.sentOne(p, o, m, late)
		}
	}
	if w.whole {
		w.wholly(p, o, all)
	}
}

func (w *windowsWorld) sentOne(p *process, o *span, m *tidemill.Message, late bool) {
	r := w.of(m.Payload)
	if r == nil {
		w.fault("process %d sent what nobody brought: %s", p.n, m.Payload)
		return
	}
	place := o.places[r.name()]
	_, to := r.topics()
	switch {
	case place == nil || stored(r.batch) != o.batch:
		w.fault("%v was sent in window %s, where it is not", r, o.id)
		return
	case place.r != r:
		w.fault("%v was sent in window %s, and %v had taken its place", r, o.id, place.r)
	case m.To != to || string(m.Key) != r.id || m.Type != r.kind.String() || !r.goesOut(m.Payload):
		w.fault("%v went to %s under key %q, of type %s, as %s", r, m.To, m.Key, m.Type, m.Payload)
	case r.bad || r.filtered || r.large || r.against || r.damaged:
		w.fault("%v was sent, and must not be", r)
	}
	if place.sent++; place.sent > 1 {
		w.count[SentTwice]++
		if w.peace {
			w.fault("%v was sent twice in window %s, and nothing went wrong", r, o.id)
		}
	}
	name := r.batch + " " + r.name()
	if o.revision < w.newest[name] && !late && o.replays == 0 {
		w.fault("%v of window %s was sent after a newer one", r, o.id)
	}
	w.newest[name] = max(w.newest[name], o.revision)
	w.log[to] = append(w.log[to], &arrival{r, bytes.Clone(m.Payload)})
}

// wholly checks that all of a window came at once, except what is not to come.
func (w *windowsWorld) wholly(p *process, o *span, all []*tidemill.Message) {
	in := map[string]bool{}
	for _, m := range all {
		if r := w.of(m.Payload); r != nil && m.To != resultsOut {
			in[r.name()] = true
		}
	}
	for _, name := range o.names {
		place := o.places[name]
		if !in[name] && !place.r.filtered && place.lettered == 0 {
			w.fault("process %d sent window %s, and %v is not there", p.n, o.id, place.r)
		}
	}
}
