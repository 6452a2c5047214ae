package redisdefinition_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/definition/definitiontest"
	"github.com/tidemill/tidemill/state/definition/redisdefinition"
	"github.com/tidemill/tidemill/state/definition/tabledefinition"
)

func wrap(t *testing.T, client rueidis.Client, of definition.Definitions) *redisdefinition.Definitions {
	t.Helper()
	d, err := redisdefinition.New(client, of, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	client := redistest.Connect(t, testenv.Redis(t))
	definitiontest.Run(t, func(t *testing.T) definitiontest.Harness {
		return definitiontest.Harness{Definitions: wrap(t, client, tabledefinition.Memory())}
	})
}

// broken is a store that cannot be written.
type broken struct{ definition.Definitions }

func (broken) Upsert(context.Context, *definition.Batch) error { return errors.New("disk full") }

func TestNewNamesDropTheCachesOfTheirKindAndProject(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		a, b, now := uuid.New(), uuid.New(), time.Now()
		var all []string
		for _, p := range []uuid.UUID{a, b} {
			all = append(all, "event_names:"+p.String(), "event_property_names:"+p.String())
		}
		for _, c := range []struct {
			name  string
			store definition.Definitions
			batch definition.Batch
			want  []bool // still there
		}{
			{"an event", tabledefinition.Memory(), definition.Batch{Events: []definition.Event{{Project: a, Name: "e", LastSeen: now}}}, []bool{false, true, true, true}},
			{"properties", tabledefinition.Memory(), definition.Batch{Properties: []definition.Property{{Project: a, Name: "p", Of: definition.OfEvent}, {Project: b, Name: "p", Of: definition.OfPerson}}}, []bool{true, false, true, false}},
			{"a pair of known names", tabledefinition.Memory(), definition.Batch{EventProperties: []definition.EventProperty{{Project: a, Event: "e", Property: "p"}}}, []bool{true, true, true, true}},
			{"a failure", broken{}, definition.Batch{Events: []definition.Event{{Project: a, Name: "e"}}}, []bool{true, true, true, true}},
		} {
			for _, key := range all {
				if err := client.Do(t.Context(), client.B().Set().Key(key).Value("[]").ExSeconds(60).Build()).Error(); err != nil {
					t.Fatal(err)
				}
			}
			_ = wrap(t, client, c.store).Upsert(t.Context(), &c.batch)
			for i, key := range all {
				n, err := client.Do(t.Context(), client.B().Exists().Key(key).Build()).AsInt64()
				if err != nil || (n == 1) != c.want[i] {
					t.Errorf("%s: %s is there: %d, %v; want %v", c.name, key, n, err, c.want[i])
				}
			}
		}
	})
}

func TestARedisThatIsAwayFailsNoUpsert(t *testing.T) {
	link := testenv.NewLink(t, testenv.Start(t, testenv.PrivateRedis).Addr)
	store := tabledefinition.Memory()
	d := wrap(t, redistest.Connect(t, "redis://"+link.Addr), store)
	link.Refuse()
	p := uuid.New()
	if err := d.Upsert(t.Context(), &definition.Batch{Events: []definition.Event{{Project: p, Name: "e", LastSeen: time.Now()}}}); err != nil {
		t.Error(err)
	}
	if b, err := store.List(t.Context(), p); err != nil || len(b.Events) != 1 {
		t.Errorf("%+v, %v", b, err)
	}
}
