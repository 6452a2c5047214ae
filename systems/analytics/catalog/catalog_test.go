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
	"github.com/tidemill/tidemill/state/definition/tabledefinition"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

var (
	projectA = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	projectB = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
	errDown  = errors.New("down")
)

// defs counts upserts and can be down.
type defs struct {
	*tabledefinition.Definitions[*memorytable.Tx]
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
	d := &defs{Definitions: tabledefinition.Memory()}
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
			[]string{"buy", "event properties.b: Boolean", "event properties.d: DateTime", "event properties.n: Numeric", "event properties.s: String", "buy event properties.b", "buy event properties.d", "buy event properties.n", "buy event properties.s"}},
		{"properties of the person", []*event.Event{seen("buy", `{}`, `{"plan":"pro"}`)},
			[]string{"buy", "person user_properties.plan: String", "buy person user_properties.plan"}},
		{"properties of the person set by the event", []*event.Event{seen("buy", `{"$set":{"a":1},"$set_once":{"b":true},"$unset":["c"]}`, "")},
			[]string{"buy", "person user_properties.a: Numeric", "person user_properties.b: Boolean", "buy person user_properties.a", "buy person user_properties.b"}},
		{"operations inside user_properties", []*event.Event{seen("buy", "", `{"$set":{"a":1},"$set_once":{"b":true},"$unset":["c"],"d":1}`)},
			[]string{"buy", "person user_properties.a: Numeric", "person user_properties.b: Boolean", "person user_properties.d: Numeric", "buy person user_properties.a", "buy person user_properties.b", "buy person user_properties.d"}},
		{"a $set that is no object", []*event.Event{seen("buy", `{"$set":7,"$set_once":["x"]}`, "")}, []string{"buy"}},
		{"groups are no properties", []*event.Event{seen("buy", `{"$groups":{"a":1},"$group_0":"x","$group_4":"x","$group_5":"x"}`, "")},
			[]string{"buy", "event properties.$group_5: String", "buy event properties.$group_5"}},
		{"values without a type", []*event.Event{seen("buy", `{"n":null,"o":{"a":[1,{"b":"}"}]},"a":["]"]}`, "")},
			[]string{"buy", "event properties.a: ", "event properties.n: ", "event properties.o: ", "buy event properties.a", "buy event properties.n", "buy event properties.o"}},
		{"a type found later in the hour", []*event.Event{seen("buy", `{"n":null}`, ""), seen("buy", `{"n":null}`, ""), seen("buy", `{"n":1}`, "")},
			[]string{"buy", "event properties.n: Numeric", "buy event properties.n"}},
		{"the first type stays", []*event.Event{seen("buy", `{"n":1}`, ""), seen("view", `{"n":"x"}`, "")},
			[]string{"buy", "view", "event properties.n: Numeric", "buy event properties.n", "view event properties.n"}},
		{"a new name among known ones", []*event.Event{seen("buy", `{"a":1,"b":1}`, ""), seen("buy", `{"a":1,"b":1,"c":1}`, "")},
			[]string{"buy", "event properties.a: Numeric", "event properties.b: Numeric", "event properties.c: Numeric", "buy event properties.a", "buy event properties.b", "buy event properties.c"}},
		{"a new event with known names", []*event.Event{seen("buy", `{"a":1}`, ""), seen("view", `{"a":1}`, "")},
			[]string{"buy", "view", "event properties.a: Numeric", "buy event properties.a", "view event properties.a"}},
		{"the same name in the other bag", []*event.Event{seen("buy", `{"a":1}`, `{}`), seen("buy", `{}`, `{"a":1}`)},
			[]string{"buy", "event properties.a: Numeric", "person user_properties.a: Numeric", "buy event properties.a", "buy person user_properties.a"}},
		{"escapes are read", []*event.Event{seen("buy", `{"a\"\u0062\\":"\\","c\\":"\"","d":1}`, "")},
			[]string{"buy", `event properties.a"b\: String`, `event properties.c\: String`, "event properties.d: Numeric", `buy event properties.a"b\`, `buy event properties.c\`, "buy event properties.d"}},
		{"what is no UTF-8 is replaced", []*event.Event{seen("b\xffy", "{\"\xff\":1}", "")},
			[]string{"b\ufffdy", "event properties.\ufffd: Numeric", "b\ufffdy event properties.\ufffd"}},
		{"an event name of 200 characters", []*event.Event{seen(long, "", "")}, []string{long}},
		{"an event name of 201 characters", []*event.Event{seen(long+"e", `{"a":1}`, "")}, nil},
		{"a property name of 200 characters and one of 201", []*event.Event{seen("buy", `{"`+long+`":1,"`+long+`e":1}`, "")},
			[]string{"buy", "event properties." + long + ": Numeric", "buy event properties." + long}},
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
		want := []string{"buy", "event properties.a: Numeric", "event properties.b: Numeric", "buy event properties.a", "buy event properties.b"}
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

// seeAll sees an event with all its names, and checks at each step that the waiting names are
// bounded.
func seeAll(t *testing.T, c *Catalog, e *event.Event) {
	t.Helper()
	for !c.See(e) {
		bounded(t, c)
		flush(t, c)
	}
	bounded(t, c)
}

func bounded(t *testing.T, c *Catalog) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.waiting.size() + c.flushing; n > maxWaiting || len(c.known.events) > maxKnown || len(c.known.properties) > maxKnown ||
		len(c.known.pairs) > maxKnown || len(c.shapes) > maxKnown {
		t.Fatalf("%d names wait, of at most %d; %d events, %d properties, %d pairs and %d shapes are known", n, maxWaiting,
			len(c.known.events), len(c.known.properties), len(c.known.pairs), len(c.shapes))
	}
}

func TestNoNameIsDroppedHoweverManyAreNewAtOnce(t *testing.T) {
	wide := func(prefix string) string {
		var b strings.Builder
		for i := range maxProperties {
			fmt.Fprintf(&b, `%c"%s%d":1`, "{,"[min(i, 1)], prefix, i)
		}
		return b.String() + "}"
	}
	t.Run("one event with all the properties that it may have", func(t *testing.T) {
		cat, d := newCatalog(t, Options{})
		seeAll(t, cat, seen("buy", wide("p"), ""))
		flush(t, cat)
		if got := len(lines(t, d, projectA)); got != 1+2*maxProperties {
			t.Errorf("%d definitions, want %d", got, 1+2*maxProperties)
		}
	})
	t.Run("an import of many events, each with names of its own", func(t *testing.T) {
		cat, d := newCatalog(t, Options{})
		const events = 13 // 260,013 names: more than may wait, and more than are remembered
		for i := range events {
			seeAll(t, cat, seen(fmt.Sprint("e", i), wide(fmt.Sprintf("p%d_", i)), ""))
		}
		flush(t, cat)
		if got := len(lines(t, d, projectA)); got != events*(1+2*maxProperties) {
			t.Errorf("%d definitions, want %d", got, events*(1+2*maxProperties))
		}
	})
	t.Run("while they cannot be written, and events come once only", func(t *testing.T) {
		cat, d := newCatalog(t, Options{})
		d.down = true
		i := 0
		for ; cat.See(seen(fmt.Sprint("e", i), "", "")); i++ {
			if i%5000 == 0 {
				if err := cat.Flush(t.Context()); !errors.Is(err, errDown) {
					t.Fatalf("Flush = %v, want %v", err, errDown)
				}
			}
			bounded(t, cat)
		}
		if i != maxWaiting {
			t.Errorf("%d names found room, want %d", i, maxWaiting)
		}
		d.down = false
		seeAll(t, cat, seen(fmt.Sprint("e", i), "", ""))
		flush(t, cat)
		if got := len(lines(t, d, projectA)); got != maxWaiting+1 {
			t.Errorf("%d events are catalogued, want %d", got, maxWaiting+1)
		}
	})
}

// watched notes the projects of an upsert, as a store does that drops readers' caches.
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
	cat, _ := newCatalog(t, Options{})
	d := tabledefinition.Memory() // has a lock; the counting one has none
	cat.defs = d
	const lanes, each, wide = 4, 30, 200 // 24,000 properties and as many pairs, twice what may wait
	var wg sync.WaitGroup
	for w := range lanes {
		wg.Go(func() {
			for i := range each {
				var b strings.Builder
				for p := range wide {
					fmt.Fprintf(&b, `%c"p%d_%d_%d":1`, "{,"[min(p, 1)], w, i, p)
				}
				for e := seen("shared", b.String()+"}", ""); !cat.See(e); {
					bounded(t, cat)
					if err := cat.Flush(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	flush(t, cat)
	b, err := d.List(t.Context(), projectA)
	if err != nil || len(b.Events) != 1 || len(b.Properties) != lanes*each*wide || len(b.EventProperties) != lanes*each*wide {
		t.Errorf("%d events, %d properties, %d pairs (%v), want 1, %d and %d", len(b.Events), len(b.Properties), len(b.EventProperties), err, lanes*each*wide, lanes*each*wide)
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
