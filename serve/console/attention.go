package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// item wants attention.
type item struct {
	Level int    // the most urgent is 0
	State string // a word
	Text  string // what is the matter
	Next  string // what to do
	Href  string
	Op    string // the operation that shows more; empty: none
}

const (
	attentionFor    = 5 * time.Second        // what was found is shown that long to everybody
	attentionWithin = 300 * time.Millisecond // a page waits that long for it
	oldAfter        = 15 * time.Minute       // a job that waits longer wants attention
)

// attention is what wants attention, looked for once for all who look at pages.
type attention struct {
	mu    sync.Mutex
	found map[caller.Role]attended
}

type attended struct {
	at    time.Time
	items []item
}

// of is what wants attention; false: that is not known.
func (a *attention) of(v *visit) ([]item, bool) {
	if v.who.Role == caller.Nobody {
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.found[v.who.Role]
	if known && v.at.Sub(last.at) < attentionFor {
		return last.items, true
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), attentionWithin)
	defer cancel()
	items, err := findAttention(ctx, v)
	if err != nil {
		return last.items, false
	}
	if a.found == nil {
		a.found = map[caller.Role]attended{}
	}
	a.found[v.who.Role] = attended{v.at, items}
	return items, true
}

func findAttention(ctx context.Context, v *visit) (items []item, err error) {
	if v.may(api.GetStatus.ID) {
		s, err := api.GetStatus.Call(ctx, v.API, &operation.None{})
		if err != nil {
			return nil, err
		}
		items = append(items, ofPipelines(&s)...)
	}
	if v.may(api.ListQueues.ID) {
		for q, err := range api.ListQueues.Each(ctx, v.API, &operation.None{}) {
			if problem := problemOf(err); problem != nil && problem.Status == 404 { // none here
				break
			} else if err != nil {
				return nil, err
			}
			items = append(items, ofQueue(q)...)
		}
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.Level, b.Level) })
	return items, nil
}

func problemOf(err error) *operation.Problem {
	if err == nil {
		return nil
	}
	return problem(err)
}

func ofPipelines(s *api.Status) (items []item) {
	for _, sys := range s.Systems {
		for _, p := range sys.Pipelines {
			at := address("instances") + "#" + p.Name
			switch {
			case p.State == "failed" || p.State == "stopped":
				items = append(items, item{0, p.State, "Pipeline " + p.Name + " has stopped in this instance.", p.Last, at, ""})
			case p.State == "paused":
				items = append(items, item{2, p.State, "Pipeline " + p.Name + " is paused in this instance.", "Events are taken in, and wait. Resume it when the reason is gone.", at, ""})
			}
			if p.Breaker != "closed" && p.Breaker != "" {
				items = append(items, item{1, "open", "The circuit of pipeline " + p.Name + " is open.", p.Why, at, ""})
			}
			if p.Unread != "" {
				items = append(items, item{0, "unread", "The books of pipeline " + p.Name + " cannot be read.", p.Unread, address("books"), ""})
			}
		}
		for _, note := range sys.Notes {
			items = append(items, item{3, "note", note, "", address("instances"), ""})
		}
	}
	return items
}

func ofQueue(q *api.Queue) (items []item) {
	at := address("queues", q.Name)
	add := func(level int, state, next, format string, args ...any) {
		items = append(items, item{level, state, fmt.Sprintf(format, args...), next, at, ""})
	}
	old := time.Duration(q.Age * float64(time.Second))
	switch {
	case q.Paused:
		add(2, "paused", "Jobs come in, and wait until it is resumed.", "Queue %s is paused; %s jobs wait.", q.Name, number(q.Waiting))
	case q.Closed:
		add(2, "draining", "Senders are refused until it is resumed.", "Queue %s takes no new jobs.", q.Name)
	case old > oldAfter && q.Waiting > 0:
		add(4, "old", "Look at who works on it, and at what holds its jobs back.", "The oldest job of queue %s was added %s ago.", q.Name, age(old))
	}
	return items
}
