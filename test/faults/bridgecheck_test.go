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
	for _, in := range w.instances {
		if in.Runs() {
			if err := in.WaitReady(time.Minute); err != nil {
				w.Fatal(err)
			}
		}
	}
	w.load.stop()
	a := w.quiet(within)
	faults := w.judge(a, allow)
	for _, f := range faults[:min(len(faults), 20)] {
		w.Error(f)
	}
	if n := len(faults) - 20; n > 0 {
		w.Errorf("and %d more", n)
	}
	f := w.far
	f.mu.Lock()
	w.Logf("the receiver: %d ids, %d dead, %v", len(f.seen), len(f.dead), f.count)
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
		owner[e.data] = e
		unknown += e.unknown
		for _, id := range e.ids {
			got, letters := f.seen[id], f.dead[id]
			switch {
			case got == nil:
				fault("entry %s %.60q was confirmed and never came to the receiver (%d letters)", id, e.data, len(letters))
			case got.data != e.data || got.other != "":
				fault("entry %s came as %.80q and %.80q, want %.80q", id, got.data, got.other, e.data)
			case len(letters) == 0 && got.acked == 0:
				fault("entry %s left the stream without an ack of the receiver: it came %d times, %d times refused", id, got.times, got.refused)
			}
		}
	}
	for id, got := range f.seen {
		e := owner[got.data]
		if e == nil || !slices.Contains(e.ids, id) && e.unknown == 0 {
			fault("a message of id %s came that nobody added: %.80q", id, got.data)
		}
	}
	for id, letters := range f.dead {
		got := f.seen[id]
		if got == nil {
			fault("entry %s is dead and never came to the receiver", id)
			continue
		}
		for _, d := range letters {
			if d.Original != got.data || d.Attempts != mostRefusals || d.Error == "" {
				fault("the letter of %s is %+v, want %.80q after %d tries", id, d, got.data, mostRefusals)
			}
			if _, err := time.Parse(time.RFC3339, d.Time); err != nil {
				fault("the letter of %s: %v", id, err)
			}
		}
		if got.refused < mostRefusals {
			fault("entry %s is dead after %d refusals, %d are needed (acked %d times)", id, got.refused, mostRefusals, got.acked)
		}
	}
	for _, text := range f.odd[:min(len(f.odd), 5)] {
		fault("what came is no message of a bridge: %.200q", text)
	}
	w.judgeBooks(a, int64(l.confirmed), int64(unknown), int64(len(f.dead)), allow, fault)
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
