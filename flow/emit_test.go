package flow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

func fanOut(_ context.Context, t *flow.Task) error {
	if t.ID == "3" {
		t.Skip("no route")
		return nil
	}
	t.Emit(&tidemill.Message{To: "x"})
	t.Emit(&tidemill.Message{ID: t.ID + "-y", To: "y"})
	if t.ID == "2" {
		return tidemill.Fail(tidemill.Business, "no")
	}
	return nil
}

func TestEmittedMessagesGoInTheSameStroke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true, Forwards: true}).add(messages(3)...)
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 3, Work: each(fanOut).work})
		rest(time.Second)
		var next []string
		for _, e := range s.ends {
			line := e.ID + " " + e.Fate.String()
			for _, m := range e.Next {
				line += " " + m.ID
			}
			next = append(next, line)
		}
		equal(t, "ends", next, []string{"1 delivered 1/0 1-y", "2 dead", "3 skipped"})
		stop()
	})
}

func TestEmittedMessagesAreWrittenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(6)...)
		var mu sync.Mutex
		var wrote []string
		fail := []error{errDown, &tidemill.Partial{Failed: []tidemill.Failed{{Index: 3, Err: errDown}}}}
		emits := sinkFunc(func(b []*tidemill.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if len(s.ends) > 0 {
				t.Error("settled before the emitted were written")
			}
			line := ""
			for _, m := range b {
				line += m.ID + " "
				if m.ID == "5/0" {
					wrote = append(wrote, line+"rejected")
					return tidemill.Fail(tidemill.Validation, "too large")
				}
			}
			if len(fail) > 0 {
				err := fail[0]
				fail = fail[1:]
				wrote = append(wrote, line+"failed")
				return err
			}
			wrote = append(wrote, line)
			return nil
		})
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 6, Emits: emits,
			Work: each(func(_ context.Context, t *flow.Task) error {
				if t.ID != "6" {
					t.Emit(&tidemill.Message{})
				}
				return nil
			}).work})
		rest(time.Minute)
		equal(t, "writes", strings.Join(wrote, "\n"), strings.Join([]string{
			"1/0 2/0 3/0 4/0 5/0 rejected",
			"1/0 2/0 failed",
			"1/0 2/0 failed", // a Partial that names neither of these two
			"3/0 4/0 5/0 rejected",
			"3/0 ",
			"4/0 5/0 rejected",
			"4/0 ",
			"5/0 rejected"}, "\n"))
		equal(t, "ends", s.fates(), []string{"1 delivered", "2 delivered", "3 delivered", "4 delivered", "5 dead", "6 delivered"})
		for _, end := range s.ends {
			if len(end.Next) > 0 {
				t.Errorf("the settlement of %s forwards %d messages that were written already", end.ID, len(end.Next))
			}
		}
		stop()
	})
}

func TestPartlyWrittenEmissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Parks: true}).add(messages(3)...)
		var wrote []string
		emits := sinkFunc(func(b []*tidemill.Message) error {
			line := ""
			for _, m := range b {
				line += m.ID + " "
			}
			wrote = append(wrote, line)
			if len(wrote) > 1 {
				return nil
			}
			return &tidemill.Partial{Failed: []tidemill.Failed{{Index: 2, Err: tidemill.Fail(tidemill.Validation, "bad")}, {Index: 5, Err: errDown}}}
		})
		_, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 3, Emits: emits,
			Work: each(func(_ context.Context, t *flow.Task) error {
				t.Emit(&tidemill.Message{})
				t.Emit(&tidemill.Message{})
				return nil
			}).work})
		rest(time.Minute)
		equal(t, "writes", wrote, []string{"1/0 1/1 2/0 2/1 3/0 3/1 ", "3/0 3/1 "})
		equal(t, "ends", s.fates(), []string{"1 delivered", "2 dead", "3 delivered"})
		stop()
	})
}

func TestEmissionsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		p   flow.Pipeline
		ids []string
	}{
		"nowhere to go":  {flow.Pipeline{}, []string{"a"}},
		"the same twice": {flow.Pipeline{Emits: sinkFunc(func([]*tidemill.Message) error { return errors.New("called") })}, []string{"a", "b", "a"}},
		"many, two same": {flow.Pipeline{Emits: sinkFunc(func([]*tidemill.Message) error { return errors.New("called") })}, append(strings.Split("abcdefghijklmnopqrstuvw", ""), "c")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(tidemill.Traits{Parks: true}).add(messages(1)...)
				p := c.p
				p.Name, p.Source = "p", s
				p.Work = each(func(_ context.Context, t *flow.Task) error {
					for _, id := range c.ids {
						t.Emit(&tidemill.Message{ID: id})
					}
					return nil
				}).work
				_, stop := start(t, p)
				rest(time.Minute)
				equal(t, "ends", s.fates(), []string{"1 dead"})
				stop()
			})
		})
	}
}

func TestAcksFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(tidemill.Traits{Delays: true, Parks: true}).add(messages(3)...)
		acks := make(chan tidemill.Settlement, 10)
		failing := []error{errDown}
		e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Batch: 3, AckGrace: 10 * time.Second,
			Backoff: policy.Retry{Tries: -1, Base: time.Second},
			Acks: func(ctx context.Context, into []tidemill.Settlement) (int, error) {
				if len(failing) > 0 {
					err := failing[0]
					failing = failing[1:]
					return 0, err
				}
				select {
				case a := <-acks:
					into[0] = a
					return 1, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			},
			Work: each(func(_ context.Context, t *flow.Task) error { t.Defer(); return nil }).work})
		rest(2 * time.Second)
		equal(t, "ends", s.fates(), []string{"1 left", "2 left", "3 left"})
		if st := e.Stats(); st.InFlight != 0 || st.Awaited != 3 {
			t.Errorf("deferred messages hold no credit: %+v", st)
		}
		if err := e.Pause(); err != nil { // acks are still taken
			t.Error(err)
		}
		acks <- tidemill.Settlement{ID: "2", Fate: tidemill.Delivered}
		acks <- tidemill.Settlement{ID: "2", Fate: tidemill.Delivered} // a duplicate is harmless
		acks <- tidemill.Settlement{ID: "unknown", Fate: tidemill.Delivered}
		rest(time.Second)
		equal(t, "ends", s.fates()[3:], []string{"2 delivered"})
		if st := e.Stats(); st.Acked != 1 || st.Stale != 2 || st.Awaited != 2 {
			t.Errorf("%+v", st)
		}
		begin := time.Now()
		time.AfterFunc(3*time.Second, func() {
			acks <- tidemill.Settlement{ID: "1", Fate: tidemill.Delivered}
			acks <- tidemill.Settlement{ID: "3", Fate: tidemill.Delivered}
		})
		if err := stop(); err != nil {
			t.Error(err)
		}
		equal(t, "ends", s.fates()[4:], []string{"1 delivered", "3 delivered"})
		if took := time.Since(begin).Round(time.Second); took != 3*time.Second {
			t.Errorf("stop took %v: acks are awaited no longer than there are any to come", took)
		}
	})
}

func TestDropPolicies(t *testing.T) {
	for _, c := range []struct {
		drop flow.Drop
		want []string // of 30, lanes stuck on 1 and 2, a buffer of 8
	}{
		{flow.DropNone, nil},
		{flow.DropNewest, []string{"11", "12", "13"}},
		{flow.DropOldest, []string{"3", "4", "5"}},
	} {
		t.Run(c.drop.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(tidemill.Traits{Parks: true}).add(messages(2)...)
				open := make(chan struct{})
				e, stop := start(t, flow.Pipeline{Name: "p", Source: s, Lanes: 2, InFlight: 10, Threshold: .8, Drop: c.drop,
					Work: each(func(context.Context, *flow.Task) error { <-open; return nil }).work})
				synctest.Wait()
				for range 28 {
					s.add(messages(1)...)
					synctest.Wait()
				}
				rest(time.Second)
				st := e.Stats()
				if c.drop == flow.DropNone {
					if st.Shed != 0 || st.InFlight != 8 || st.Received != 8 {
						t.Errorf("receiving waits: %+v", st)
					}
				} else {
					if st.Shed != 20 || st.Buffered != 8 || st.Left != 20 || st.Received != 30 {
						t.Errorf("shed: %+v", st)
					}
					if got := s.lost; len(got) < 3 || fmt.Sprint(got[:3]) != fmt.Sprint(c.want) {
						t.Errorf("shed %v, want first %v", got, c.want)
					}
				}
				close(open)
				rest(time.Second)
				if n := len(s.settled); n+len(s.lost) != 30 {
					t.Errorf("%d settled, %d shed", n, len(s.lost))
				}
				stop()
			})
		})
	}
}

func TestMoreThanTheBufferAtOnce(t *testing.T) {
	for drop, want := range map[flow.Drop]string{flow.DropNewest: "1 2 3 4", flow.DropOldest: "7 8 9 10"} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(tidemill.Traits{Parks: true}).add(messages(10)...)
			var got []string
			_, stop := start(t, flow.Pipeline{Name: "p", Source: s, InFlight: 5, Threshold: .8, Drop: drop,
				Work: each(func(_ context.Context, t *flow.Task) error { got = append(got, t.ID); return nil }).work})
			rest(time.Second)
			equal(t, drop.String(), strings.Join(got, " "), want)
			stop()
		})
	}
}
