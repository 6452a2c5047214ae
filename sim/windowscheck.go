package sim

import (
	"context"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// check checks how everything ended, and the product's own books.
func (w *windowsWorld) check() {
	w.book.Lock()
	defer w.book.Unlock()
	held := w.heldLetters()
	for _, r := range w.reports {
		switch ends := r.delivered + r.skipped; {
		case !r.came:
			w.fault("%v was never brought", r)
		case r.bad && (held[firstGrave(r)] == nil || r.fresh+r.over > 0):
			w.fault("%v is no record, was put %d times, and its letter is %v", r, r.fresh+r.over, held[firstGrave(r)] != nil)
		case !r.bad && (ends == 0 || r.fresh+r.over == 0):
			w.fault("%v ended %d times at its intake, and was put %d times", r, ends, r.fresh+r.over)
		}
	}
	for _, o := range w.order {
		w.checkSpan(o, held)
	}
	w.checkIndex(held)
	w.checkBooks(held)
}

func firstGrave(r *report) string { in, _ := r.topics(); return in + " m-" + strconv.Itoa(r.n) }

// heldLetters are all remaining dead letters, by pipeline and id.
func (w *windowsWorld) heldLetters() map[string]*deadletter.Letter {
	held := map[string]*deadletter.Letter{}
	for l, err := range w.letters.List(context.Background(), deadletter.Filter{}) {
		if err != nil {
			w.fault("the letters cannot be listed: %v", err)
			return held
		}
		held[l.Pipeline+" "+l.ID] = l
		r := w.graves[l.Pipeline+" "+l.ID]
		if r == w.noReport {
			continue
		}
		if r == nil || w.of(l.Payload) != r || l.State != deadletter.Held {
			w.fault("the letter %s of %s is %s: %s", l.ID, l.Pipeline, l.State, l.Payload)
			continue
		}
		if w.again > 0 && !r.bad && !r.mortal() && !r.unfit && !r.dayless {
			w.fault("%v has a letter of %s in the end, although all was replayed when all was well: %v %s", r, l.Pipeline, l.Kind, l.Cause)
		}
	}
	return held
}

// checkSpan checks how a window ended. That all of it was sent was checked when it was deleted.
func (w *windowsWorld) checkSpan(o *span, held map[string]*deadletter.Letter) {
	i, err := w.store.Look(context.Background(), o.id)
	switch {
	case o.parked:
		if err != nil || i.State != window.Parked || int(i.Records) != len(o.places) || w.again > 0 {
			w.fault("window %s was parked with %d records, and is %+v: %v", o.id, len(o.places), i, err)
		}
		return
	case !o.ended || err == nil:
		w.fault("window %s is %+v in the end (settled: %v): %v", o.id, i, o.ended, err)
		return
	}
	for _, name := range o.names {
		at := o.places[name]
		if at.sent > 0 || at.r.filtered && !at.r.damaged || w.hasGrave(o, at.r, held) {
			continue
		}
		if again := at.r.fresh + at.r.over; again < 2 { // its dead letter came back, as a record of another window
			w.fault("%v of window %s was neither sent nor skipped, and has no letter", at.r, o.id)
		}
	}
}

// hasGrave reports whether a record of a window has a dead letter now.
func (w *windowsWorld) hasGrave(o *span, r *report, held map[string]*deadletter.Letter) bool {
	for at := range held {
		if id, found := strings.CutPrefix(at, windows.Delivered+" "); found && w.graves[at] == r && strings.HasPrefix(id, o.name()+"/") {
			return true
		}
	}
	return false
}

// checkIndex compares the index with the topics: it has the last record of each key, unless the
// index refused that, or a late reader, or a dead letter, came after it.
func (w *windowsWorld) checkIndex(held map[string]*deadletter.Letter) {
	for topic, schema := range map[string]*search.Schema{eventOut: search.Events(), mentionOut: search.Mentions()} {
		page, err := w.index.Search(context.Background(), search.Query{Schema: schema.Name, Size: search.MaxSize})
		if err != nil || page.Total != len(page.Hits) {
			w.fault("search: %v, %d of %d", err, len(page.Hits), page.Total)
			return
		}
		docs := map[string]string{}
		for _, h := range page.Hits {
			if _, twice := docs[h.ID]; twice {
				w.fault("there are two documents %s in the index", h.ID)
			}
			docs[h.ID] = string(h.Body)
		}
		last, any := map[string]string{}, map[string]bool{}
		var keys []string
		for _, e := range w.log[topic] {
			id := w.document(e.r)
			d, err := schema.Doc([]byte(id), e.payload)
			if !any[id] {
				keys = append(keys, id)
				any[id] = true
			}
			if err != nil || e.r.unfit {
				continue
			}
			last[id] = string(d.Body)
			any[id+" "+string(d.Body)] = true
		}
		for _, key := range keys {
			switch doc, found := docs[key]; {
			case doc == last[key] && found == (last[key] != ""):
			case w.unruly[topic+key] && any[key+" "+doc]:
			default:
				w.fault("the index has under %s (found: %v, a late reader: %v) %v, want %v", key, found, w.unruly[topic+key], w.of([]byte(doc)), w.of([]byte(last[key])))
			}
			delete(docs, key)
		}
		for key := range docs {
			w.fault("the index has %s, which was never sent", key)
		}
	}
	w.checkRefused(held)
}

// checkRefused checks that each document that the index refuses has a dead letter.
func (w *windowsWorld) checkRefused(held map[string]*deadletter.Letter) {
	has := map[*report]bool{}
	for at := range held {
		if strings.HasPrefix(at, "index-") {
			has[w.graves[at]] = true
		}
	}
	for _, topic := range []string{eventOut, mentionOut} {
		for _, e := range w.log[topic] {
			if (e.r.unfit || e.r.dayless) != has[e.r] {
				w.fault("%v was sent, and has a letter of its index: %v", e.r, has[e.r])
			}
		}
	}
}

// checkBooks compares the product's own proof with the checker's.
func (w *windowsWorld) checkBooks(held map[string]*deadletter.Letter) {
	p := outsider()
	open := func(name string) tidemill.Source { return w.queues.Open(name, queue.Options{}) }
	sys, err := windows.New(windows.Parts{
		Intakes: []windows.Intake{{Name: eventIn, Source: open(eventIn), Kind: record.Event}, {Name: mentionIn, Source: open(mentionIn), Kind: record.Mention}},
		Windows: w.store, DeadLetters: w.letters, Out: windowsOut{w, p}, Index: w.index,
		Readers: []windows.Reader{{Name: "index-event", Source: open(eventOut), Schema: search.Events()}, {Name: "index-mention", Source: open(mentionOut), Schema: search.Mentions()}},
	}, w.options(0))
	if err != nil {
		w.fault("%v", err)
		return
	}
	a, err := sys.Audit(context.Background())
	if err != nil || !a.Balanced || len(a.Pipelines) != 5 {
		w.fault("audit: %+v, %v", a, err)
		return
	}
	want := map[string]uint64{}
	for _, r := range w.reports {
		in, _ := r.topics()
		want[in]++
	}
	parked := uint64(0)
	for _, o := range w.order {
		want[windows.Delivered] += uint64(len(o.places) * (1 + o.replays))
		if o.parked {
			parked += uint64(len(o.places))
		}
	}
	letters := 0
	for _, p := range a.Pipelines {
		letters += int(p.Letters.Held)
		if n, ok := want[p.Pipeline]; p.InFlight != 0 || ok && n != p.Accepted {
			w.fault("the books of %s say %+v, want %d accepted and none in flight", p.Pipeline, p.Audit, n)
		}
		if p.Pipeline == windows.Delivered && p.Dead < parked {
			w.fault("the books of %s say that %d records are dead, %d are parked", p.Pipeline, p.Dead, parked)
		}
	}
	if letters != len(held) {
		w.fault("the books say that %d letters are held, there are %d", letters, len(held))
	}
}
