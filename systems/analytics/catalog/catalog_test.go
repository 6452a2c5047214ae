package catalog

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/definition/memorydefinition"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

var (
	projectA = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	projectB = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
	errDown  = errors.New("down")
)

// defs counts upserts and can be down.
type defs struct {
	*memorydefinition.Definitions
	down    bool
	upserts []*definition.Batch
}

func (d *defs) Upsert(ctx context.Context, b *definition.Batch) error {
	d.upserts = append(d.upserts, b)
	if d.down {
		return errDown
	}
	return d.Definitions.Upsert(ctx, b)
}

func newCatalog(t testing.TB, o Options) (*Catalog, *defs) {
	t.Helper()
	d := &defs{Definitions: memorydefinition.New()}
	c, err := New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, d
}

func seen(name, properties, user string) *event.Event {
	return &event.Event{Project: projectA, Name: name, Properties: []byte(properties), UserProperties: []byte(user)}
}

func flush(t *testing.T, c *Catalog) {
	t.Helper()
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// lines writes a project's definitions as "event", "of name: type" and "event of name".
func lines(t *testing.T, d *defs, project uuid.UUID) (s []string) {
	t.Helper()
	b, err := d.List(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range b.Events {
		s = append(s, e.Name)
	}
	for _, p := range b.Properties {
		s = append(s, fmt.Sprintf("%s %s: %s", p.Of, p.Name, p.Type))
	}
	for _, p := range b.EventProperties {
		s = append(s, fmt.Sprintf("%s %s %s", p.Event, p.Of, p.Property))
	}
	return s
}

func TestSee(t *testing.T) {
	long := strings.Repeat("é", 200)
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `%c"p%d":1`, "{,"[min(i, 1)], i)
		}
		return b.String() + "}"
	}
	for _, c := range []struct {
		name   string
		events []*event.Event
		want   []string
	}{
		{"an event without properties", []*event.Event{seen("buy", "", "")}, []string{"buy"}},
		{"properties with their types", []*event.Event{seen("buy", ` { "n" : 1 , "s":"x","b":true,"d":"2026-05-04" } `, "")},
			[]string{"buy", "event b: Boolean", "event d: DateTime", "event n: Numeric", "event s: String", "buy event b", "buy event d", "buy event n", "buy event s"}},
		{"properties of the person", []*event.Event{seen("buy", `{}`, `{"plan":"pro"}`)},
			[]string{"buy", "person plan: String", "buy person plan"}},
		{"properties of the person set by the event", []*event.Event{seen("buy", `{"$set":{"a":1},"$set_once":{"b":true},"$unset":["c"]}`, "")},
			[]string{"buy", "person a: Numeric", "person b: Boolean", "buy person a", "buy person b"}},
		{"operations inside user_properties", []*event.Event{seen("buy", "", `{"$set":{"a":1},"$set_once":{"b":true},"$unset":["c"],"d":1}`)},
			[]string{"buy", "person a: Numeric", "person b: Boolean", "person d: Numeric", "buy person a", "buy person b", "buy person d"}},
		{"a $set that is no object", []*event.Event{seen("buy", `{"$set":7,"$set_once":["x"]}`, "")}, []string{"buy"}},
		{"groups are no properties", []*event.Event{seen("buy", `{"$groups":{"a":1},"$group_0":"x","$group_4":"x","$group_5":"x"}`, "")},
			[]string{"buy", "event $group_5: String", "buy event $group_5"}},
		{"values without a type", []*event.Event{seen("buy", `{"n":null,"o":{"a":[1,{"b":"}"}]},"a":["]"]}`, "")},
			[]string{"buy", "event a: ", "event n: ", "event o: ", "buy event a", "buy event n", "buy event o"}},
		{"a type found later in the hour", []*event.Event{seen("buy", `{"n":null}`, ""), seen("buy", `{"n":null}`, ""), seen("buy", `{"n":1}`, "")},
			[]string{"buy", "event n: Numeric", "buy event n"}},
		{"the first type stays", []*event.Event{seen("buy", `{"n":1}`, ""), seen("view", `{"n":"x"}`, "")},
			[]string{"buy", "view", "event n: Numeric", "buy event n", "view event n"}},
		{"a new name among known ones", []*event.Event{seen("buy", `{"a":1,"b":1}`, ""), seen("buy", `{"a":1,"b":1,"c":1}`, "")},
			[]string{"buy", "event a: Numeric", "event b: Numeric", "event c: Numeric", "buy event a", "buy event b", "buy event c"}},
		{"a new event with known names", []*event.Event{seen("buy", `{"a":1}`, ""), seen("view", `{"a":1}`, "")},
			[]string{"buy", "view", "event a: Numeric", "buy event a", "view event a"}},
		{"the same name in the other bag", []*event.Event{seen("buy", `{"a":1}`, `{}`), seen("buy", `{}`, `{"a":1}`)},
			[]string{"buy", "event a: Numeric", "person a: Numeric", "buy event a", "buy person a"}},
		{"escapes are read", []*event.Event{seen("buy", `{"a\"\u0062\\":"\\","c\\":"\"","d":1}`, "")},
			[]string{"buy", `event a"b\: String`, `event c\: String`, "event d: Numeric", `buy event a"b\`, `buy event c\`, "buy event d"}},
		{"what is no UTF-8 is replaced", []*event.Event{seen("b\xffy", "{\"\xff\":1}", "")},
			[]string{"b\ufffdy", "event \ufffd: Numeric", "b\ufffdy event \ufffd"}},
		{"an event name of 200 characters", []*event.Event{seen(long, "", "")}, []string{long}},
		{"an event name of 201 characters", []*event.Event{seen(long+"e", `{"a":1}`, "")}, nil},
		{"a property name of 200 characters and one of 201", []*event.Event{seen("buy", `{"`+long+`":1,"`+long+`e":1}`, "")},
			[]string{"buy", "event " + long + ": Numeric", "buy event " + long}},
		{"10,001 properties", []*event.Event{seen("buy", many(10_001), "")}, nil},
		{"10,001 properties in both bags together", []*event.Event{seen("buy", many(10_000), `{"a":1}`)}, nil},
		{"no JSON object is no properties", []*event.Event{seen("buy", `[1]`, `{"a":1`)}, []string{"buy"}},
		{"no name", []*event.Event{seen("", `{"a":1}`, "")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cat, d := newCatalog(t, Options{})
			for _, e := range c.events {
				cat.See(e)
				clear(e.Properties) // the message's memory is reused
			}
			flush(t, cat)
			if got := lines(t, d, projectA); !reflect.DeepEqual(got, c.want) {
				t.Errorf("catalogued\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}

func TestTenThousandPropertiesAreCatalogued(t *testing.T) {
	cat, d := newCatalog(t, Options{})
	var b strings.Builder
	for i := range maxProperties {
		fmt.Fprintf(&b, `%c"p%d":1`, "{,"[min(i, 1)], i)
	}
	e := seen("buy", b.String()+"}", "")
	for range 2 { // more than may wait at once: the rest is found when it is seen again
		cat.See(e)
		flush(t, cat)
	}
	if got := len(lines(t, d, projectA)); got != 1+2*maxProperties {
		t.Errorf("%d definitions, want %d", got, 1+2*maxProperties)
	}
}

func TestWhatIsKnownIsUpsertedOncePerHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cat, d := newCatalog(t, Options{})
		start := time.Now().Truncate(time.Hour)
		see := func() {
			cat.See(seen("buy", `{"a":1,"n":null}`, `{"plan":"pro"}`))
			flush(t, cat)
		}
		for range 5 {
			see()
			time.Sleep(11 * time.Minute)
		}
		if len(d.upserts) != 1 {
			t.Fatalf("%d upserts in one hour, want 1", len(d.upserts))
		}
		time.Sleep(time.Hour)
		see()
		if len(d.upserts) != 2 {
			t.Fatalf("%d upserts in two hours, want 2", len(d.upserts))
		}
		if b := d.upserts[0]; len(b.Events) != 1 || len(b.Properties) != 3 || len(b.EventProperties) != 3 {
			t.Errorf("the first batch is %+v", b)
		}
		for i, want := range []time.Time{start, start.Add(time.Hour)} {
			b := d.upserts[i]
			if !b.Events[0].LastSeen.Equal(want) || !b.Properties[0].LastSeen.Equal(want) || !b.EventProperties[0].LastSeen.Equal(want) {
				t.Errorf("batch %d was last seen at %v, want the hour %v", i, b.Events[0].LastSeen, want)
			}
		}
	})
}

func TestAFailedUpsertIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cat, d := newCatalog(t, Options{})
		d.down = true
		cat.See(seen("buy", `{"a":1}`, ""))
		if err := cat.Flush(t.Context()); !errors.Is(err, errDown) {
			t.Fatalf("Flush = %v, want %v", err, errDown)
		}
		cat.See(seen("buy", `{"a":1,"b":null}`, "")) // meanwhile
		if err := cat.Flush(t.Context()); !errors.Is(err, errDown) {
			t.Fatalf("Flush = %v, want %v", err, errDown)
		}
		time.Sleep(time.Hour)
		cat.See(seen("buy", `{"b":1}`, "")) // the next hour
		d.down = false
		flush(t, cat)
		want := []string{"buy", "event a: Numeric", "event b: Numeric", "buy event a", "buy event b"}
		if got := lines(t, d, projectA); !reflect.DeepEqual(got, want) {
			t.Errorf("catalogued %q, want %q", got, want)
		}
		if b := d.upserts[2]; len(b.Events) != 1 || len(b.Properties) != 2 || len(b.EventProperties) != 2 {
			t.Errorf("a definition is in the batch twice: %+v", b)
		}
		n := len(d.upserts)
		flush(t, cat)
		if len(d.upserts) != n {
			t.Error("there was something to upsert after all was")
		}
	})
}

func TestWhatWaitsIsBounded(t *testing.T) {
	cat, d := newCatalog(t, Options{})
	d.down = true
	const n = 3 * maxWaiting
	see := func() {
		for i := range n {
			cat.See(seen(fmt.Sprintf("e%d", i), "", ""))
		}
	}
	for range 2 {
		see()
		if err := cat.Flush(t.Context()); !errors.Is(err, errDown) {
			t.Fatalf("Flush = %v, want %v", err, errDown)
		}
		if len(cat.waiting.events) > maxWaiting || len(cat.known.events) > maxKnown || len(cat.shapes) > maxKnown {
			t.Fatalf("%d wait, %d are known, %d shapes", len(cat.waiting.events), len(cat.known.events), len(cat.shapes))
		}
	}
	d.down = false
	for range 3 {
		see()
		flush(t, cat)
	}
	if got := len(lines(t, d, projectA)); got != n {
		t.Errorf("%d events are catalogued, want %d", got, n)
	}
}

// watched tells which projects' names an upsert has brought, as a store does that drops
// the caches of readers.
type watched struct {
	definition.Definitions
	told *[]string
}

func (w watched) Upsert(ctx context.Context, b *definition.Batch) error {
	if err := w.Definitions.Upsert(ctx, b); err != nil {
		return err
	}
	for _, p := range []uuid.UUID{projectA, projectB} {
		events := slices.ContainsFunc(b.Events, func(e definition.Event) bool { return e.Project == p })
		properties := slices.ContainsFunc(b.Properties, func(x definition.Property) bool { return x.Project == p })
		if events || properties {
			*w.told = append(*w.told, fmt.Sprintf("%s %v %v", p, events, properties))
		}
	}
	return nil
}

func TestAnUpsertBringsWhatIsNewAndNothingElse(t *testing.T) {
	var told []string
	cat, d := newCatalog(t, Options{})
	cat.defs = watched{cat.defs, &told}
	see := func(p uuid.UUID, name, properties string) {
		e := seen(name, properties, "")
		e.Project = p
		cat.See(e)
	}
	see(projectB, "view", ``)
	see(projectA, "buy", `{"a":1}`)
	d.down = true
	_ = cat.Flush(t.Context())
	if told != nil {
		t.Fatalf("a failed upsert told %v", told)
	}
	d.down = false
	flush(t, cat)
	see(projectB, "view", `{"a":1}`)
	flush(t, cat)
	see(projectB, "view", `{"a":2}`)
	flush(t, cat)
	want := []string{projectA.String() + " true true", projectB.String() + " true false", projectB.String() + " false true"}
	if !reflect.DeepEqual(told, want) {
		t.Errorf("told\n%v\nwant\n%v", told, want)
	}
}

func TestSeeAndFlushAtOnce(t *testing.T) {
	cat, d := newCatalog(t, Options{})
	d2 := memorydefinition.New() // its own lock; counting has none
	cat.defs = d2
	_ = d
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				cat.See(seen(fmt.Sprintf("e%d", i%50), fmt.Sprintf(`{"p%d":1}`, (i+w)%70), ""))
				if i%10 == 0 {
					if err := cat.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	flush(t, cat)
	b, err := d2.List(t.Context(), projectA)
	if err != nil || len(b.Events) != 50 || len(b.Properties) != 70 {
		t.Errorf("%d events and %d properties (%v), want 50 and 70", len(b.Events), len(b.Properties), err)
	}
}

func TestNewRefusesNothingToWriteTo(t *testing.T) {
	if _, err := New(nil, Options{}); err == nil {
		t.Error("New without definitions returned no error")
	}
}

func BenchmarkSeeSteady(b *testing.B) {
	cat, _ := newCatalog(b, Options{})
	var p strings.Builder
	for i := range 20 {
		fmt.Fprintf(&p, `%c"property_number_%d":"value %d"`, "{,"[min(i, 1)], i, i*i*1000)
	}
	e := seen("$pageview", p.String()+"}", `{"plan":"pro"}`)
	b.SetBytes(int64(len(e.Properties)))
	b.ReportAllocs()
	for b.Loop() {
		cat.See(e)
	}
}
