//go:build servers

package faults

import (
	"fmt"
	"slices"
	"time"
)

// bridgeAllowance is what a row's fault may do.
type bridgeAllowance struct {
	recount bool // the group was destroyed: entries that are settled already may be counted again
}

// finish stops the load, waits until nothing is in flight, and checks.
func (w *bridgeWorld) finish(within time.Duration, allow bridgeAllowance) {
	w.Helper()
	w.ready()
	w.load.stop()
	a := w.quiet(within)
	w.complain(w.judge(a, allow))
	f := w.far
	f.mu.Lock()
	w.Logf("the receiver: %d ids, %d dead, %v", len(f.seen), f.dead(), f.count)
	f.mu.Unlock()
	if !f.o.Plain {
		w.struck("acks", 100, f.total("acks"))
		w.struck("acks sent twice", 10, f.total("twice"))
		w.struck("late acks", 5, f.total("late"))
		w.struck("refusals", 10, f.total("refused"))
		w.struck("acks of nobody, and garbage", 3, f.total("unknown or garbage"))
	}
}

// judge compares what the subscriber has with what was added. It knows what each entry has to
// become, and nothing of how.
func (w *bridgeWorld) judge(a audit, allow bridgeAllowance) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	l, f := w.load, w.far
	l.mu.Lock()
	defer l.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	owner := make(map[string]*bridgeEntry, len(l.entries)) // by data
	unknown := 0
	for _, e := range l.entries {
		owner[e.Data] = e
		unknown += e.unknown
		for _, id := range e.ids {
			switch h := f.seen[id]; {
			case h == nil:
				fault("entry %s %.60q was confirmed and never came to the receiver", id, e.Data)
			case h.Data != e.Data || h.Other != "":
				fault("entry %s came as %.80q and %.80q, want %.80q", id, h.Data, h.Other, e.Data)
			}
		}
	}
	for id, h := range f.seen {
		if h.Times == 0 {
			fault("entry %s is dead and never came to the receiver", id)
			continue
		}
		if e := owner[h.Data]; e == nil || !slices.Contains(e.ids, id) && e.unknown == 0 {
			fault("a message of id %s came that nobody added: %.80q", id, h.Data)
		}
		for _, d := range h.Letters {
			d.Check(id, h.Data, fault)
		}
		h.Ended(id, len(h.Letters) > 0, fault)
	}
	for _, text := range f.odd[:min(len(f.odd), 5)] {
		fault("what came is no message of a bridge: %.200q", text)
	}
	w.judgeBooks(a, int64(l.confirmed), int64(unknown), int64(f.dead()), allow, fault)
	return faults
}

// judgeBooks compares the product's own numbers with Redis' and the checker's.
func (w *bridgeWorld) judgeBooks(a audit, confirmed, unknown, dead int64, allow bridgeAllowance, fault func(string, ...any)) {
	info, err := w.do("XINFO", "STREAM", bridgeStream).AsMap()
	if err != nil {
		w.Fatal(err)
	}
	entries := info["entries-added"]
	added, err := entries.AsInt64()
	if err != nil {
		w.Fatal(err)
	}
	if added < confirmed || added > confirmed+unknown {
		fault("Redis has seen %d entries, %d were confirmed, %d may be there", added, confirmed, unknown)
	}
	if !a.Balanced || a.Lost != 0 || a.Skipped != 0 {
		fault("the books do not balance: %+v", a)
	}
	if (!allow.recount && a.Accepted != added) || a.Accepted < added || a.Delivered+a.Dead != a.Accepted || a.Dead != dead {
		fault("the books say %+v; %d were added, %d are dead", a, added, dead)
	}
}
