package analyticsapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/answer/answertest"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/memorywarehouse"
)

// stage is analytics that does not run: the test moves its jobs, persons and rows.
type stage struct {
	*answertest.Stage
	*Finder
	rows *memorywarehouse.Store
}

var shop = project.ID("shop")

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Stage: answertest.New(t), rows: memorywarehouse.New()}
	projects := tableproject.Memory()
	for _, name := range []string{"shop", "club"} {
		if err := projects.Ensure(t.Context(), project.Project{ID: project.ID(name), Name: name}, project.HashOf(tidemill.NewSecret("key of "+name))); err != nil {
			t.Fatal(err)
		}
	}
	s.Finder = &Finder{Common: &answer.Common{Projects: projects}, Persons: tableperson.Memory(tableperson.Options{}), Events: s.rows, Letters: s.Stage.Letters, Queues: s.Stage.Queues, Now: s.Stage.Now}
	return s
}

const id = "0190f3c2-0000-7000-8000-000000000001"

// comes adds an event's job.
func (s *stage) comes(id string) {
	s.Helper()
	s.Adds(&tidemill.Message{ID: id, Tenant: shop.String(), Type: "viewed", To: analytics.Name, Payload: []byte(answertest.Secret)})
}

// stores writes an event's row, and its person.
func (s *stage) stores(id uuid.UUID, distinct string) {
	s.Helper()
	s.At = s.At.Add(time.Second)
	ref := person.Ref{Project: shop, Distinct: distinct}
	e := &event.Event{ID: id, Project: shop, Name: "viewed", DistinctID: distinct, Person: person.ID(ref), Timestamp: s.At.Add(-time.Minute), IngestedAt: s.At, Origin: 1, Properties: []byte(`{"a":"secret"}`)}
	if err := s.Persons.Apply(s.Context(), []person.Change{{Ref: ref, Event: id, At: s.At}}); err != nil {
		s.Fatal(err)
	}
	if err := s.rows.Insert(s.Context(), []*event.Event{e}, make([]warehouse.Outcome, 1)); err != nil {
		s.Fatal(err)
	}
}

// merges makes two distinct ids one person.
func (s *stage) merges(distinct, other string) {
	s.Helper()
	m := []person.Merge{{Ref: person.Ref{Project: shop, Distinct: distinct}, Other: other, Event: uuid.MustParse(id), At: s.At}}
	if err := s.Persons.Merge(s.Context(), m, make([]person.Outcome, 1)); err != nil {
		s.Fatal(err)
	}
}

// TestEachStateOfAnEventIsExplained: the texts are what people read.
func TestEachStateOfAnEventIsExplained(t *testing.T) {
	told := func(state, fate string, do func(*stage)) answertest.Told {
		return answertest.Told{State: state, Fate: fate, Of: func(t *testing.T) (answer.Finder, string, string) {
			s := newStage(t)
			do(s)
			return s, "shop", id
		}}
	}
	own := uuid.MustParse(id)
	answertest.Tells(t, "testdata/explain.golden", []answertest.Told{
		told("queued", api.FateInFlight, func(s *stage) { s.comes(id) }),
		told("being processed", api.FateInFlight, func(s *stage) { s.comes(id); s.Takes(analytics.Name) }),
		told("tried again later", api.FateInFlight, func(s *stage) {
			s.comes(id)
			s.Ends(analytics.Name, s.Takes(analytics.Name), tidemill.Settlement{End: tidemill.Again, After: 12 * time.Second, CountTry: true, Kind: tidemill.Transient, Cause: "the warehouse is away"})
		}),
		told("stored", api.FateDelivered, func(s *stage) { s.stores(own, "anna") }),
		told("stored, and its person was merged", api.FateDelivered, func(s *stage) {
			s.stores(own, "anonymous-1")
			s.stores(uuid.MustParse("0190f3c2-0000-7000-8000-000000000002"), "anna")
			s.merges("anna", "anonymous-1")
		}),
		told("stored, and where it waits is a stream", api.FateDelivered, func(s *stage) { s.stores(own, "anna"); s.Finder.Queues = nil }),
		told("refused", api.FateDead, func(s *stage) {
			s.comes(id)
			s.Dies(analytics.Name, s.Takes(analytics.Name), tidemill.Validation, "no distinct id \x1b[2J")
		}),
		told("given up for a while", api.FateDead, func(s *stage) {
			s.comes(id)
			s.Dies(analytics.Name, s.Takes(analytics.Name), tidemill.Transient, "the warehouse is away")
		}),
	})
}

func TestWhatIsFoundByItsID(t *testing.T) {
	s := newStage(t)
	const sent = "checkout/17 ✓𝄞" // what its sender calls it
	own := event.IDOf(shop, sent)
	s.comes(id)
	s.stores(own, "anna/1 𝄞")
	who := person.ID(person.Ref{Project: shop, Distinct: "anna/1 𝄞"}).String()
	for _, c := range []struct{ id, owner, want string }{
		{id, "", "events that wait: event " + id + " of shop"},
		{strings.ToUpper(id), "shop", "events that wait: event " + id + " of shop"},
		{id, "club", ""},
		{sent, "", "warehouse: event " + own.String() + " of shop"},
		{own.String(), "", "warehouse: event " + own.String() + " of shop"},
		{"anna/1 𝄞", "", "persons: person " + who + " of shop"},
		{who, "", "persons: person " + who + " of shop"},
		{strings.Repeat("𝄞/ ", 200), "", ""},
		{"\x00\xff", "", ""},
	} {
		if got := strings.Join(answertest.Found(t, s, c.id, c.owner), ", "); got != c.want {
			t.Errorf("%q of %q:\n%s\nwant\n%s", c.id, c.owner, got, c.want)
		}
	}
}

// broken is a warehouse that is away.
type broken struct{ warehouse.Reader }

var errAway = &tidemill.Error{Kind: tidemill.Transient, Err: errors.New("the warehouse is away")}

func (broken) Find(context.Context, uuid.UUID, uuid.UUID) (*event.Event, error) {
	return nil, errAway
}

func TestAPartThatIsAwayIsSaidAndTheOthersStay(t *testing.T) {
	s := newStage(t)
	s.comes(id)
	s.Events = broken{}
	x, err := s.Explain(t.Context(), "shop", id)
	if err != nil || len(x.Failed) != 1 || x.Failed[0].Why != errAway.Error() || x.Fate != api.FateInFlight {
		t.Errorf("%+v, %v", x, err)
	}
}

func TestWhatNobodyKnowsIsNotFound(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct{ owner, id string }{{"shop", "none"}, {"nobody", id}} {
		_, err := s.Explain(t.Context(), c.owner, c.id)
		if p, ok := errors.AsType[*operation.Problem](err); !ok || p.Status != http.StatusNotFound {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
