package crm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// Work done for an event, or for one of its replays, is done once, whatever becomes of the
// event's entry in the sync log meanwhile.

// A completed live job, whose end was lost with its process, comes again after its lease.
// Meanwhile a replay of the event has failed, so the entry is FAILED.
func TestALiveJobComesAgainBesideAReplayThatFailed(t *testing.T) {
	each(t, func(w *world) {
		ctx := context.Background()
		o := crm.Options{Workers: 1, Backoff: 5 * time.Minute}
		spec := w.does(func(c *handler.Call) error {
			if c.Replay != "" {
				return errors.New("not now")
			}
			return nil
		}, "*")
		w.live(newMortal("before settle of crm-events", 1), o, func(*mortal) []handler.Spec { return []handler.Spec{spec} }, func(s *crm.System) {
			_, _ = s.Acceptor().Accept(ctx, [][]byte{raw("club", "e1", "a", "")}, nil)
		})
		w.same("first", w.record("club", "e1").State, crm.IsCompleted)
		w.start(o, spec)
		_, err := w.sys.Replay(ctx, crm.ReplayRequest{ID: "r"})
		fatal(w, err)
		rest(2 * time.Minute)
		w.same("calls", w.called(func(c call) string { return c.id + c.replay }), "e1 e1r")
		w.same("ends", w.ended(), "[e1 failed transient e1 skipped duplicate]")
		r := w.record("club", "e1")
		w.same("the replay's failure stays", r.State+" "+r.Kind+" "+r.Error, "FAILED transient handle: test *: not now")
		w.balanced()
	})
}

// The end of one replay was lost, and another of the same event was completed before its job
// came again.
func TestAReplayComesAgainBesideAnother(t *testing.T) {
	each(t, func(w *world) {
		ctx := context.Background()
		o := crm.Options{Workers: 1}
		specs := func(*mortal) []handler.Spec {
			if w.sqlite == nil {
				return []handler.Spec{w.does(nil, "*")}
			}
			return []handler.Spec{{Name: "together", Types: []string{"*"}, Handler: handler.InTransaction(mortalLedger{w.log, newMortal("", 0), "log"},
				func(_ context.Context, _ *sqlitedb.Tx, calls []*handler.Call) error { w.note(calls[0]); return nil })}}
		}
		w.live(newMortal("before settle of crm-events", 2), o, specs, func(s *crm.System) {
			_, _ = s.Acceptor().Accept(ctx, [][]byte{raw("club", "e1", "a", "")}, nil)
			time.Sleep(time.Second)
			_, _ = s.Replay(ctx, crm.ReplayRequest{ID: "r1"})
		})
		w.start(o, specs(nil)...)
		for _, id := range []string{"r2", "r3"} {
			_, err := w.sys.Replay(ctx, crm.ReplayRequest{ID: id})
			fatal(w, err)
			rest(3 * time.Second)
		}
		const calls = "e1 e1r1 e1r2 e1r3"
		all := func(c call) string { return c.id + c.replay }
		w.same("before it comes", w.called(all), calls)
		rest(5 * time.Minute)
		w.same("in the end", w.called(all), calls)
		w.same("ends", w.ended(), "[e1 completed e1 completed e1 completed]")
		w.balanced()
	})
}

// hooked is a sync log with a hook before its next Begin, once.
type hooked struct {
	ledger.Store
	end atomic.Bool // ends are refused

	mu   sync.Mutex // guards next
	next func(e *ledger.Entry, o ledger.Begin) bool
}

// before sets the next hook, which reports whether that was the Begin it waited for.
func (l *hooked) before(next func(e *ledger.Entry, o ledger.Begin) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = next
}

func (l *hooked) hooked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil
}

func (l *hooked) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	l.mu.Lock()
	if l.next != nil && l.next(es[0], o) {
		l.next = nil
	}
	l.mu.Unlock()
	return l.Store.Begin(ctx, es, o)
}

func (l *hooked) End(ctx context.Context, es []*ledger.Entry) error {
	if l.end.Load() {
		return errAway
	}
	return l.Store.End(ctx, es)
}

// other is another worker's work on an entry meanwhile.
func (w *world) other(key string, o ledger.Begin, s ledger.State, result, cause string) {
	w.Helper()
	e := &ledger.Entry{Key: key, Tenant: "club", Type: "a", Holder: "other#1", Payload: raw("club", strings.TrimPrefix(key, "club/"), "a", "")}
	fatal(w, w.log.Begin(context.Background(), []*ledger.Entry{e}, o))
	w.same("the other has it", e.State, ledger.Fresh)
	e.State, e.Result, e.Err = s, []byte(result), cause
	fatal(w, w.log.End(context.Background(), []*ledger.Entry{e}))
}

// A worker stalls before it begins a replay anew; another has the job meanwhile, and completes
// it.
func TestAReplayWhoseSecondBeginStoodStill(t *testing.T) {
	in(t, func(w *world) {
		log := &hooked{Store: w.log}
		p := w.parts(w.does(nil, "*"))
		p.Log = log
		w.startWith(p, crm.Options{Workers: 1})
		w.send(raw("club", "e1", "a", ""))
		rest(time.Second)
		log.before(func(_ *ledger.Entry, o ledger.Begin) bool {
			if o.Anew {
				w.other("club/e1", o, ledger.Done, "\nr\n", "")
			}
			return o.Anew
		})
		_, err := w.sys.Replay(context.Background(), crm.ReplayRequest{ID: "r"})
		fatal(w, err)
		rest(time.Minute)
		w.same("calls", w.called(func(c call) string { return c.id + c.replay }), "e1")
		w.same("ends", w.ended(), "[e1 completed e1 completed]")
		w.same("sync log", w.record("club", "e1").State, crm.IsCompleted)
		w.balanced()
	})
}

// A dead letter comes late: of a job that another worker has completed since.
func TestALetterOfWhatIsDone(t *testing.T) {
	in(t, func(w *world) {
		ctx := context.Background()
		w.start(crm.Options{Workers: 1}, w.does(nil, "*"))
		w.send(raw("club", "e1", "a", ""))
		rest(time.Second)
		for _, id := range []string{"r1", "r2"} {
			_, err := w.sys.Replay(ctx, crm.ReplayRequest{ID: id})
			fatal(w, err)
			rest(3 * time.Second)
		}
		fatal(w, w.letters.Put(ctx, []tidemill.DeadLetter{{Pipeline: crm.Queue, Kind: tidemill.Timeout, Cause: "late", Tries: 3, At: time.Now(),
			Message: &tidemill.Message{ID: "e1", Tenant: "club", Type: "a", Payload: raw("club", "e1", "a", ""), Header: []tidemill.Field{{Name: []byte(crm.RequestHeader), Value: []byte("r1")}}}}}))
		fatal(w, w.sys.Retry(ctx, "club", "e1"))
		rest(time.Minute)
		w.same("calls", w.called(func(c call) string { return c.id + c.replay }), "e1 e1r1 e1r2")
		w.same("dead", w.dead(), "")
		w.same("sync log", w.record("club", "e1").State, crm.IsCompleted)
	})
}

// A process whose end the sync log did not accept knows that it is done, even if others have
// begun the event meanwhile, and put it off.
func TestAProcessRemembersWhatItHasDone(t *testing.T) {
	in(t, func(w *world) {
		began, log := time.Now(), &hooked{Store: w.log}
		log.end.Store(true)
		p := w.parts(w.does(nil, "*"))
		p.Log = log
		w.startWith(p, crm.Options{Workers: 1})
		w.send(raw("club", "e1", "a", ""))
		rest(20 * time.Second)
		log.before(func(*ledger.Entry, ledger.Begin) bool {
			if time.Since(began) < 31*time.Second { // its lease lasts
				return false
			}
			w.other("club/e1", ledger.Begin{}, ledger.Failed, "", "again: it was put off")
			log.end.Store(false)
			return true
		})
		rest(2 * time.Minute)
		w.same("it came again", !log.hooked(), true)
		w.same("calls", w.called(ids), "e1")
		w.same("ends", w.ended(), "[e1 completed]")
		r := w.record("club", "e1")
		w.same("sync log", r.State+r.Error, crm.IsCompleted)
		_, err := w.sys.Replay(context.Background(), crm.ReplayRequest{ID: "r"})
		fatal(w, err)
		rest(time.Minute)
		w.same("replayed", w.called(func(c call) string { return c.id + c.replay }), "e1 e1r")
		w.balanced()
	})
}

// A handler is called only if the lease lasts longer than the call may take: neither after the
// worker stalled, nor repeatedly in halves while leases cannot be renewed.
func TestNoCallOnALeaseThatMayEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		slow  bool // profiles stall, else the handler is slow and fails
		calls string
	}{
		{"after standing still", true, ""},
		{"in halves", false, "0s/4 9s/2 18s/1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(w *world) {
				log, slow := &awayLog{Store: w.log}, c.slow
				var calls []string
				var began time.Time
				p := w.parts(handler.Spec{Name: "slow", Types: []string{"*"}, Many: 4, Handler: handler.Batch(func(_ context.Context, all []*handler.Call) error {
					if began.IsZero() && !c.slow {
						began = time.Now()
						log.begin.Store(true)
					}
					if !log.begin.Load() {
						return nil
					}
					calls = append(calls, fmt.Sprintf("%v/%d", time.Since(began), len(all)))
					time.Sleep(9 * time.Second) // of 10 that it may take; the lease is one of 30
					return tidemill.Fail(tidemill.NotFound, "not there")
				})})
				p.Log, p.Profiles = log, slowProfiles{p.Profiles, &slow, func() { log.begin.Store(true) }}
				w.startWith(p, crm.Options{Workers: 1})
				w.send(many("club", "a", 4)...)
				rest(2 * time.Minute)
				w.same("calls", strings.Join(calls, " "), c.calls)
				log.begin.Store(false)
				rest(5 * time.Minute)
				done := 0
				for _, a := range w.attempts {
					if a.Status == crm.Completed {
						done++
					}
				}
				w.same("completed", done, 4)
				w.balanced()
			})
		})
	}
}
