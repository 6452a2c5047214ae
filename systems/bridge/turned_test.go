package bridge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// refusing makes the broker refuse the messages of one entry in this way, and returns how often
// it did.
func (w *world) refusing(id string, kind tidemill.Kind) *int {
	tries := new(int)
	w.broker.set(func() {
		w.broker.fail = func(m *tidemill.Message) error {
			if m.To != "out" || m.ID != id {
				return nil
			}
			*tries++
			return tidemill.Fail(kind, "the broker said %v", kind)
		}
	})
	return tries
}

func TestWhatTheBrokerRefusesEndsOnTheTopicOfTheDead(t *testing.T) {
	for _, kind := range []tidemill.Kind{tidemill.Credentials, tidemill.Partner, tidemill.RateLimit} {
		t.Run(kind.String(), func(t *testing.T) {
			with(t, withoutAcks, func(w *world) {
				tries := w.refusing("bad", kind)
				w.add("bad")
				for n := range 30 {
					w.add(fmt.Sprint(n))
				}
				w.rest(5 * time.Minute)
				w.books(tidemill.Books{Accepted: 31, Settled: tidemill.Count{Delivered: 30, Dead: 1}})
				if l := w.broker.letters(t); len(l) != 1 || l[0]["attempts"] != 6. || *tries != 6 {
					t.Errorf("%d tries, letters: %v", *tries, l)
				}
				if s := w.bridge.Pipeline.Stats(); !strings.Contains(s.Failure, "the broker said "+kind.String()) || s.FailedAt.IsZero() {
					t.Errorf("the last failure is %q at %v", s.Failure, s.FailedAt)
				}
			})
		})
	}
}

func TestABrokerWithoutRoomForAReceiverUsesUpNothing(t *testing.T) {
	with(t, func(o *Options, p *Parts) { withoutAcks(o, p); o.AwaitsRoom = true }, func(w *world) {
		tries := w.refusing("1", tidemill.RateLimit)
		w.add("1", "2")
		w.rest(time.Hour)
		if *tries < 10 {
			t.Errorf("%d tries in an hour", *tries)
		}
		w.broker.set(func() { w.broker.fail = nil })
		w.rest(time.Minute)
		w.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
	})
}
