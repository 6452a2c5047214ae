package crm

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/priority"
)

// How replays run: page by page, each recorded before the next, by the instance that has the
// entry of the replay. A crash repeats at most one page, whose jobs the queue knows.
const (
	replayPage  = 500
	replayLease = 30 * time.Second
	pagesAtOnce = 20  // of one replay, before others have their turn
	mostOpen    = 100 // replays in progress at a time, the oldest
)

// replayOn continues the replays that have not ended, as far as the queue has room.
func (s *System) replayOn(ctx context.Context) error {
	var open []string
	for _, state := range []ledger.State{ledger.Failed, ledger.Running} {
		for e, err := range s.p.Replays.Range(ctx, ledger.Filter{State: state, Max: mostOpen}) {
			if err != nil {
				return fmt.Errorf("look for replays: %w", err)
			}
			if !strings.HasPrefix(e.Key, stopKey("")) {
				open = append(open, e.Key)
			}
		}
	}
	for _, id := range open {
		for range pagesAtOnce {
			more, err := s.replayPage(ctx, id)
			if err != nil {
				return fmt.Errorf("go on with replay %s: %w", id, err)
			}
			if !more {
				break
			}
		}
	}
	return nil
}

// room is how many jobs of replays may be put into the queue now.
func (s *System) room(ctx context.Context) (int, error) {
	depths, err := s.p.Queues.Depths(ctx, Queue)
	if err != nil {
		return 0, err
	}
	room := s.o.ReplayAhead
	for _, d := range depths {
		if d.Priority == priority.Replay {
			room -= int(d.Waiting)
		}
	}
	return room, nil
}

// replayPage puts one page of a replay's jobs into the queue. more: it has room for another.
func (s *System) replayPage(ctx context.Context, id string) (more bool, err error) {
	room, err := s.room(ctx)
	if err != nil || room <= 0 {
		return false, err
	}
	e, stop := &ledger.Entry{Key: id}, &ledger.Entry{Key: stopKey(id)}
	if err := s.p.Replays.Begin(ctx, []*ledger.Entry{e}, ledger.Begin{Lease: replayLease}); err != nil || e.State != ledger.Fresh {
		return false, err // another instance has it, or it has ended
	}
	is := &ledger.Entry{Key: id} // for its progress, which Begin does not return
	if err := s.p.Replays.Find(ctx, []*ledger.Entry{is, stop}); err != nil {
		return false, err
	}
	a, p, err := read(is)
	if err != nil {
		return false, err
	}
	ended := stop.State != 0
	if p.Stopped = ended; !ended {
		if ended, more, err = s.queuePage(ctx, id, &a, &p, min(room, replayPage)); err != nil {
			return false, err // its lease expires, and it continues from where it was
		}
	}
	e.State, e.Err = ledger.Failed, "waits"
	if ended {
		e.State, e.Err = ledger.Done, ""
	}
	if e.Result, err = json.Marshal(p); err != nil {
		return false, fmt.Errorf("write how far it has come: %w", err)
	}
	return more && !ended, s.p.Replays.End(ctx, []*ledger.Entry{e})
}

// queuePage makes jobs of the next events of the sync log. ended: there are no more. more: all
// were accepted.
func (s *System) queuePage(ctx context.Context, id string, a *asked, p *progress, most int) (ended, more bool, err error) {
	f := ledger.Filter{From: time.UnixMilli(a.From), To: time.UnixMilli(a.To), Tenant: a.Tenant, Type: a.Type, Max: most}
	if p.Reached != 0 {
		f.From, f.After = time.UnixMilli(p.Reached), p.After
	}
	jobs := make([]*tidemill.Message, 0, most)
	var last *ledger.Entry
	count := 0
	for e, err := range s.p.Log.Range(ctx, f) {
		if err != nil {
			return false, false, err
		}
		last = e
		count++
		if job := s.replayJob(e, id); job != nil {
			jobs = append(jobs, job)
		}
	}
	added := make([]queue.Added, len(jobs))
	if len(jobs) > 0 {
		if err := s.p.Queues.Add(ctx, jobs, added); err != nil {
			return false, false, err
		}
	}
	for _, is := range added {
		if is != queue.New && is != queue.Known { // full, or draining: the same page again later
			return false, false, nil
		}
	}
	if last != nil {
		p.Queued += len(jobs)
		p.Reached, p.After = last.Created.UnixMilli(), last.Key
	}
	return count < most, true, nil
}

// replayJob is the job of an event; nil: its entry holds nothing that could be handled.
func (s *System) replayJob(e *ledger.Entry, request string) *tidemill.Message {
	var ev event.Event
	if event.Decode(e.Payload, &ev) != nil || keyOf(ev.Tenant, ev.ID) != e.Key {
		return nil
	}
	return &tidemill.Message{ID: replayName(ev.ID, request), To: Queue, Tenant: ev.Tenant, Type: ev.Type, Time: ev.Time, Payload: e.Payload, Priority: priority.Replay,
		Header: []tidemill.Field{{Name: []byte(EventHeader), Value: []byte(ev.ID)}, {Name: []byte(RequestHeader), Value: []byte(request)}}}
}

// replays is what an instance knows of the replays of its jobs.
type replays struct {
	now    func() time.Time
	random *rand.Rand // names requests; nil: names come from chance

	mu    sync.Mutex // guards random and known; held for short work in memory only
	known map[string]stopped
}

// stopped is whether a replay was stopped, and when that was checked.
type stopped struct {
	is bool
	at time.Time
}

// What is remembered of replays: for how long, and of how many.
const (
	believed  = time.Second
	mostKnown = 1000
)

func (r *replays) init(o Options) {
	r.now, r.known = o.Now, map[string]stopped{}
	if o.Seed != 0 {
		r.random = rand.New(rand.NewPCG(o.Seed, 0xc12))
	}
}

// name makes the name of a request; empty if chance is not seeded.
func (r *replays) name() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.random == nil {
		return ""
	}
	return fmt.Sprintf("%016x", r.random.Uint64())
}

func (r *replays) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, id)
}

// stopped reports whether a replay was stopped, as of at most a second ago. If that cannot be
// found out it counts as running: its jobs are worked on.
func (r *replays) stopped(ctx context.Context, store ledger.Store, id string) bool {
	if id == "" {
		return false
	}
	now := r.now()
	r.mu.Lock()
	k, ok := r.known[id]
	r.mu.Unlock()
	if ok && (k.is || now.Sub(k.at) < believed) {
		return k.is
	}
	e := &ledger.Entry{Key: stopKey(id)}
	if store.Find(ctx, []*ledger.Entry{e}) != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostKnown {
		clear(r.known)
	}
	r.known[id] = stopped{e.State != 0, now}
	return e.State != 0
}
