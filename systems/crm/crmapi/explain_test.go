package crmapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/answer/answertest"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
)

// stage is CRM that does not run: the test moves its jobs, and writes its sync log.
type stage struct {
	*answertest.Stage
	*Finder
	log ledger.Store
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Stage: answertest.New(t)}
	o := tableledger.Options{Now: s.Stage.Now}
	s.log = tableledger.Memory(o)
	return s.with(s.log)
}

// with puts CRM together on a sync log.
func (s *stage) with(log ledger.Store) *stage {
	s.Helper()
	profiles, err := tableprofile.Memory(profile.Options{})
	if err != nil {
		s.Fatal(err)
	}
	sys, err := crm.New(crm.Parts{Queues: s.Stage.Queues, DeadLetters: s.Letters, Log: log, Replays: tableledger.Memory(tableledger.Options{Now: s.Stage.Now}), Profiles: profiles,
		Handlers: []handler.Spec{{Name: "welcome", Types: []string{"member.created"}, Handler: handler.Func(func(context.Context, *handler.Call) error { return nil })}}}, crm.Options{Now: s.Stage.Now})
	if err != nil {
		s.Fatal(err)
	}
	s.Keeps(crm.Queue)
	s.Finder = &Finder{CRM: sys, Queues: s.Stage.Queues, Now: s.Stage.Now, Tenants: func(context.Context) ([]string, error) { return []string{"club-7", "club-8"}, nil }}
	return s
}

const id = "order/17 ✓𝄞"

// comes adds an event's job.
func (s *stage) comes(tenant, id, typ string) {
	s.Helper()
	s.Adds(&tidemill.Message{ID: id, Tenant: tenant, Type: typ, To: crm.Queue, Priority: priority.Normal, Payload: []byte(`{"email":"secret"}`)})
}

// begins is the sync log's entry of an event that a handler takes up.
func (s *stage) begins(tenant, id, typ string) *ledger.Entry {
	s.Helper()
	e := &ledger.Entry{Key: tenant + "/" + id, Tenant: tenant, Type: typ, Payload: []byte("secret")}
	if err := s.log.Begin(s.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
		s.Fatal(err)
	}
	return e
}

// ended ends it.
func (s *stage) ended(e *ledger.Entry, state ledger.State, why string) {
	s.Helper()
	s.At = s.At.Add(time.Second)
	if e.State, e.Err = state, why; state == ledger.Done {
		e.Result = []byte("\n")
	}
	if err := s.log.End(s.Context(), []*ledger.Entry{e}); err != nil {
		s.Fatal(err)
	}
}

// TestEachStateOfAnEventIsExplained: the texts are what people read.
func TestEachStateOfAnEventIsExplained(t *testing.T) {
	told := func(state, fate, typ string, do func(*stage)) answertest.Told {
		return answertest.Told{State: state, Fate: fate, Of: func(t *testing.T) (answer.Finder, string, string) {
			s := newStage(t)
			s.comes("club-7", id, typ)
			do(s)
			return s, "club-7", id
		}}
	}
	const typ = "member.created"
	fails := func(s *stage, end tidemill.Settlement) {
		m, e := s.Takes(crm.Queue), s.begins("club-7", id, typ)
		s.ended(e, ledger.Failed, "timeout: no answer")
		s.Ends(crm.Queue, m, end)
	}
	answertest.Tells(t, "testdata/explain.golden", []answertest.Told{
		told("queued", api.FateInFlight, typ, func(*stage) {}),
		told("held back by a limit", api.FateInFlight, typ, func(s *stage) {
			s.Sets(crm.Queue, func(q *queue.Settings) {
				q.Limit, q.Tenant = queue.Limit{PerSecond: 50}, queue.Limit{PerSecond: 2, AtOnce: 5}
			})
		}),
		told("being handled", api.FateInFlight, typ, func(s *stage) { s.Takes(crm.Queue); s.begins("club-7", id, typ) }),
		told("tried again later", api.FateInFlight, typ, func(s *stage) {
			fails(s, tidemill.Settlement{End: tidemill.Again, After: 12 * time.Second, CountTry: true, Kind: tidemill.Timeout, Cause: "no answer"})
		}),
		told("handled", api.FateDelivered, typ, func(s *stage) {
			m, e := s.Takes(crm.Queue), s.begins("club-7", id, typ)
			s.ended(e, ledger.Done, "")
			s.Ends(crm.Queue, m, tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Delivered})
		}),
		told("handled, and its job is forgotten", api.FateDelivered, typ, func(s *stage) {
			m, e := s.Takes(crm.Queue), s.begins("club-7", id, typ)
			s.ended(e, ledger.Done, "")
			s.Sets(crm.Queue, func(q *queue.Settings) { q.Completed = queue.Keep{} })
			s.Ends(crm.Queue, m, tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Delivered})
		}),
		told("nobody's", api.FateSkipped, "member.left", func(s *stage) {
			m, e := s.Takes(crm.Queue), s.begins("club-7", id, "member.left")
			s.ended(e, ledger.Failed, "skipped: no handler is for its type")
			s.Ends(crm.Queue, m, tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Skipped, Cause: "no handler is for its type"})
		}),
		told("given up", api.FateDead, typ, func(s *stage) {
			m, e := s.Takes(crm.Queue), s.begins("club-7", id, typ)
			s.ended(e, ledger.Failed, "business: refused \x1b[2J")
			s.Dies(crm.Queue, m, tidemill.Business, "refused \x1b[2J")
		}),
		told("given up, and replayed", api.FateInFlight, typ, func(s *stage) {
			m, e := s.Takes(crm.Queue), s.begins("club-7", id, typ)
			s.ended(e, ledger.Failed, "business: refused")
			s.Dies(crm.Queue, m, tidemill.Business, "refused")
			for l, err := range s.Letters.List(s.Context(), deadletter.Filter{}) {
				if err != nil || l.Seq != 1 {
					s.Fatal(l, err)
				}
			}
			s.comes("club-7", "retry-1.1-"+id, typ)
		}),
	})
}

func TestWhatIsFoundByItsID(t *testing.T) {
	s := newStage(t)
	s.comes("club-7", id, "a")
	s.begins("club-8", id, "a")
	s.comes("club-8", "dead", "a")
	s.Takes(crm.Queue)
	s.Dies(crm.Queue, s.Takes(crm.Queue), tidemill.Business, "no")
	for _, c := range []struct{ id, owner, want string }{
		{id, "", "sync log and queue: event " + id + " of club-8, sync log and queue: event " + id + " of club-7"},
		{id, "club-7", "sync log and queue: event " + id + " of club-7"},
		{"dead", "", "sync log and queue: event dead of club-8, dead letters of events: event dead of club-8"},
		{"dead", "club-7", ""},
		{"club-7", "", "tenants: owner club-7 of club-7"},
		{strings.Repeat("𝄞/ ", 200), "", ""},
		{"\x00\xff", "", ""},
	} {
		if got := strings.Join(answertest.Found(t, s, c.id, c.owner), ", "); got != c.want {
			t.Errorf("%q of %q:\n%s\nwant\n%s", c.id, c.owner, got, c.want)
		}
	}
}

// broken is a sync log that is away.
type broken struct{ ledger.Store }

var errAway = &tidemill.Error{Kind: tidemill.Transient, Err: errors.New("the sync log is away")}

func (broken) Find(context.Context, []*ledger.Entry) error { return errAway }

func TestAPartThatIsAwayIsSaidAndTheOthersStay(t *testing.T) {
	s := newStage(t).with(broken{tableledger.Memory(tableledger.Options{})})
	s.comes("club-7", id, "a")
	x, err := s.Explain(t.Context(), "club-7", id)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Failed) != 1 || x.Failed[0].Where != "sync log" || x.Failed[0].Why != errAway.Error() || x.Fate != api.FateInFlight {
		t.Errorf("%+v", x)
	}
}

func TestWhatNobodyKnowsIsNotFound(t *testing.T) {
	_, err := newStage(t).Explain(t.Context(), "club-7", "none")
	if p, ok := errors.AsType[*operation.Problem](err); !ok || p.Status != http.StatusNotFound {
		t.Error(err)
	}
}
