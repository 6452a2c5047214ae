package live

import (
	"time"

	"github.com/tidemill/tidemill"
)

// Pipeline is who watches a pipeline of a system.
func (f *Feed) Pipeline(system, name string) *Pipeline { return &Pipeline{f, system, name} }

// Pipeline shows a feed what the messages of a pipeline come to. It is a flow.Watcher.
type Pipeline struct {
	feed         *Feed
	system, name string
}

// On says whether anybody looks.
func (p *Pipeline) On() bool { return p.feed.On() }

var fates = [...]string{tidemill.Delivered: Delivered, tidemill.Skipped: Skipped, tidemill.Dead: Dead}

// Ended takes in the ends that the source applied.
func (p *Pipeline) Ended(ends []tidemill.Settlement, of func(i int) *tidemill.Message) {
	f := p.feed
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	for i := range ends {
		end := &ends[i]
		if end.Outcome != tidemill.Applied || end.End != tidemill.Done || end.Fate == tidemill.None {
			continue
		}
		fate := Fate{At: now, System: p.system, Pipeline: p.name, Outcome: fates[end.Fate], ID: end.ID, Why: end.Cause, Count: 1, Delay: -1}
		if m := of(i); m != nil {
			fate.Owner, fate.Type, fate.Delay = m.Tenant, m.Type, since(m.Time, now)
		}
		f.add(&fate)
	}
}

// since is how long ago a time was; below 0: it is not known. A clock that is ahead makes it 0.
func since(t, now time.Time) time.Duration {
	if t.IsZero() {
		return -1
	}
	return max(now.Sub(t), 0)
}

// verdicts that are neither refusals nor of what is new.
var verdicts = map[string]string{"accepted": Accepted, "known": Duplicate, "duplicate": Duplicate, "repeated": Duplicate}

// Came takes in what the ingest API of a system made of a request. A Feed is an endpoint.Watcher.
func (f *Feed) Came(system, owner, verdict string, n int, why string) {
	fate := Fate{System: system, Owner: owner, Outcome: verdicts[verdict], Count: n, Delay: -1}
	if fate.Outcome == "" {
		fate.Outcome, fate.Why = Refused, why
		if why == "" {
			fate.Why = verdict
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fate.At = f.now()
	f.expire(fate.At)
	f.add(&fate)
}
