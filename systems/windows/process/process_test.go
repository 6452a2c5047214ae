package process_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// ev and me are an event and a mention with an id and more.
func ev(id int, more string) process.Item { return item(record.Event, id, more) }
func me(id int, more string) process.Item { return item(record.Mention, id, more) }

func item(k record.Kind, id int, more string) process.Item {
	if more != "" {
		more = "," + more
	}
	return process.Item{Kind: k, Raw: fmt.Appendf(nil, `{"globalEventId":%d%s}`, id, more)}
}

func chain(t *testing.T, steps ...process.Step) *process.Chain {
	t.Helper()
	c, err := process.New(steps, process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func made(t *testing.T) func(process.Processor, error) process.Step {
	return func(p process.Processor, err error) process.Step {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return process.Step{Processor: p}
	}
}

// fates says what became of each item: its id, and why it does not go on.
func fates(items []process.Item) string {
	var all []string
	for i := range items {
		it := &items[i]
		s := fmt.Sprint(it.Record.ID)
		switch it.Fate {
		case tidemill.Skipped:
			s += "-" + it.Why
		case tidemill.Dead:
			s += "!" + it.Fault.String()
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

func page(t *testing.T, r *process.Run, items ...process.Item) []process.Item {
	t.Helper()
	if err := r.Page(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	return items
}

func TestNoStepsChangeNothing(t *testing.T) {
	c := chain(t)
	items := page(t, c.Begin("b"), ev(1, `"avgTone":-1.50`), process.Item{Kind: record.Event, Raw: []byte(`{"globalEventId":`)}, me(2, ""))
	if got := fates(items); got != "1 0!validation 2" || !strings.Contains(items[1].Why, "the event is refused") {
		t.Errorf("%s, %s", got, items[1].Why)
	}
	if out := string(items[0].Record.AppendOut(nil)); !strings.Contains(out, `"avgTone":-1.50`) {
		t.Errorf("goes out as %s", out)
	}
	if s := c.Stats(); len(s) != 1 || s[0] != (process.Stats{Processor: "read", Records: 3, Dead: 1}) {
		t.Errorf("stats are %+v", s)
	}
}

func TestBuiltIn(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func() (process.Processor, error)
		items []process.Item
		want  string
	}{
		{"filter", process.Filter{Keep: `kind == "mention" || numMentions > 1 && actor1CountryCode in ["USA", "DEU"]`}.New,
			[]process.Item{ev(1, `"numMentions":2,"actor1CountryCode":"USA"`), ev(2, `"numMentions":1,"actor1CountryCode":"USA"`), ev(3, `"numMentions":5`), me(4, "")},
			"1 2-filtered 3-filtered 4"},
		{"filter that cannot say lets pass", process.Filter{Keep: `avgTone < 0`, Reason: "kind words"}.New,
			[]process.Item{ev(1, ""), ev(2, `"avgTone":1`), ev(3, `"avgTone":-1e-3`)}, "1 2-kind words 3"},
		{"filter with another value for null", process.Filter{Keep: `(avgTone ?? 1) < 0 and batch == "b"`}.New, []process.Item{ev(1, "")}, "1-filtered"},
		{"filter by a regular expression", process.Filter{Keep: `(sourceUrl ?? "") matches "^https://"`}.New,
			[]process.Item{ev(1, `"sourceUrl":"https:\/\/a"`), ev(2, `"sourceUrl":"ftp://a"`)}, "1 2-filtered"},
		{"filter by a big integer", process.Filter{Keep: `globalEventId == 9007199254740993`}.New,
			[]process.Item{ev(9007199254740993, ""), ev(9007199254740992, "")}, "9007199254740993 9007199254740992-filtered"},
		{"validate", process.Validate{Rules: []process.Rule{{Must: "(quadClass ?? 1) in 1..4 or true", Why: ""}}}.New, nil, "not possible"},
		{"validate", process.Validate{Rules: []process.Rule{{Must: "(quadClass ?? 1) <= 4", Why: "no such class"}, {Must: `eventCode != nil`}}}.New,
			[]process.Item{ev(1, `"eventCode":"01","quadClass":5`), ev(2, `"eventCode":"01"`), ev(3, "")}, "1!validation 2 3!validation"},
		{"dedup", process.Dedup{Of: record.Event, By: []string{"sourceUrl", "eventCode"}}.New,
			[]process.Item{ev(1, `"sourceUrl":"a","eventCode":"b"`), ev(2, `"sourceUrl":"a","eventCode":"c"`), ev(3, `"sourceUrl":"a","eventCode":"b"`), ev(4, ""), ev(5, ""), me(6, "")},
			"1 2 3-duplicate 4 5 6"},
		{"dedup with a bound", process.Dedup{Of: record.Event, By: []string{"day"}, Max: 1}.New,
			[]process.Item{ev(1, `"day":1`), ev(2, `"day":2`), ev(3, `"day":2`), ev(4, `"day":1`)}, "1 2 3 4-duplicate"},
		{"no such expression", process.Filter{Keep: `numMention > 1`}.New, nil, "unknown name"},
		{"a loop", process.Filter{Keep: `all([1], # > 0)`}.New, nil, "not possible"},
		{"no boolean", process.Filter{Keep: `1 + 1`}.New, nil, "expected bool"},
		{"a text that is compared with a number", process.Filter{Keep: `numMentions > "5"`}.New, nil, "mismatched types int and string"},
		{"a number for a text", process.Map{Values: []process.Value{{Name: "loud", From: "upper(numMentions)"}}}.New, nil, "cannot use int"},
		{"a number as a condition", process.Validate{Rules: []process.Rule{{Must: "isRootEvent"}}}.New, nil, "expected bool"},
		{"a pattern from the data", process.Filter{Keep: `"a" matches (sourceUrl ?? "")`}.New, nil, "not possible"},
		{"nothing", process.Filter{}.New, nil, "needed"},
		{"no rules", process.Validate{}.New, nil, "no rule"},
		{"no values", process.Map{}.New, nil, "no value"},
		{"the id", process.Map{Values: []process.Value{{Name: "globalEventId", From: "1"}}}.New, nil, "known by"},
		{"no such value", process.Dedup{Of: record.Event, By: []string{"x"}}.New, nil, "no value of events"},
		{"no kind", process.Dedup{By: []string{"day"}}.New, nil, "a kind"},
		{"adding up a text", process.Aggregate{Of: record.Event, Sum: []string{"eventCode"}}.New, nil, "cannot be added up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := c.make()
			if err != nil {
				if c.items != nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %s", err, c.want)
				}
				return
			}
			if c.items == nil {
				t.Fatalf("it is taken, want %s", c.want)
			}
			r := chain(t, process.Step{Processor: p}).Begin("b")
			if got := fates(page(t, r, c.items...)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestMap(t *testing.T) {
	m := process.Map{Values: []process.Value{
		{"tone", "avgTone"}, {"sourceUrl", `lower(sourceUrl ?? "")`}, {"good", "(avgTone ?? 0) > 0"}, {"actor1Name", "nil"}, {"numMentions", "(numMentions ?? 0) + 1"}, {"both", `[batch, kind]`},
	}}
	c := chain(t, made(t)(m.New()))
	items := page(t, c.Begin("b"), ev(1, `"avgTone":1.23456789012345678901,"sourceUrl":"HTTPS://A/<\"","actor1Name":"X","numMentions":9007199254740993`), me(2, ""))
	out := string(items[0].Record.AppendOut(nil))
	for _, want := range []string{`"avgTone":1.23456789012345678901`, `"tone":1.23456789012345678901`, `"sourceUrl":"https://a/<\""`, `"good":true`, `"actor1Name":null`, `"numMentions":9007199254740994`, `"both":["b","event"]`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
	if out := string(items[1].Record.AppendOut(nil)); !strings.Contains(out, `"sourceUrl":"","good":false`) {
		t.Errorf("a mention goes out as %s", out) // unknown names are added
	}
	bad := chain(t, made(t)(process.Map{Values: []process.Value{{"good", "true"}, {"avgTone", `"x"`}}}.New()))
	items = page(t, bad.Begin("b"), ev(1, `"avgTone":1`))
	if out := string(items[0].Record.AppendOut(nil)); strings.Contains(out, "good") || !strings.Contains(out, `"avgTone":1,`) {
		t.Errorf("half of what failed stays: %s", out)
	}
	if s := bad.Stats()[1]; s.Failed != 1 || s.Records != 1 {
		t.Errorf("stats are %+v", s)
	}
}

func TestGeo(t *testing.T) {
	c := chain(t, made(t)(process.Geo{Zero: true, Point: "location"}.New()))
	items := page(t, c.Begin("b"),
		ev(1, `"actionGeoLat":91,"actionGeoLong":1,"actor1GeoLat":-90,"actor1GeoLong":180.00`),
		ev(2, `"actionGeoLat":0,"actionGeoLong":0.0,"actor2GeoLat":1,"actor2GeoLong":-181`),
		ev(3, `"actionGeoLat":5`), me(4, ""))
	for i, want := range []string{`"location":{"lat":-90,"lon":180.00}`, `"location":null`, `"location":null`, `{"globalEventId":4`} {
		out := string(items[i].Record.AppendOut(nil))
		if !strings.Contains(out, want) || !strings.Contains(out+`"actionLocation":null`, `"actionLocation":null`) || strings.Contains(out, "-181") {
			t.Errorf("%s is not in %s", want, out)
		}
	}
}

func TestAggregateOverPages(t *testing.T) {
	c := chain(t, made(t)(process.Aggregate{Of: record.Event, By: []string{"actor1CountryCode"}, Sum: []string{"avgTone"}, Max: 2}.New()))
	r := c.Begin("b")
	page(t, r, ev(1, `"actor1CountryCode":"USA","avgTone":-1.5`), ev(2, `"actor1CountryCode":"DEU"`), me(3, ""))
	page(t, r, ev(4, `"actor1CountryCode":"USA","avgTone":2`), ev(5, `"actor1CountryCode":"FRA"`), ev(6, ""))
	got, err := r.End(t.Context())
	const want = `{"records":5,"others":2,"groups":[{"by":{"actor1CountryCode":"USA"},"count":2,"of":{"avgTone":{"count":2,"sum":0.5,"min":-1.5,"max":2}}},` +
		`{"by":{"actor1CountryCode":"DEU"},"count":1,"of":{"avgTone":{"count":0,"sum":0,"min":0,"max":0}}}]}`
	if err != nil || len(got) != 1 || string(got[0].Value) != want || got[0].Batch != "b" || got[0].Processor != "aggregate" {
		t.Errorf("%s, %v", got, err)
	}
	if again, err := c.Begin("b").End(t.Context()); err != nil || !strings.HasPrefix(string(again[0].Value), `{"records":0`) {
		t.Errorf("a batch that begins anew has %s, %v", again, err)
	}
}

// TestSumsStayNumbers holds that a batch has its result whatever its numbers add up to: JSON has no
// infinity.
func TestSumsStayNumbers(t *testing.T) {
	r := chain(t, made(t)(process.Aggregate{Of: record.Event, Sum: []string{"avgTone"}}.New())).Begin("b")
	page(t, r, ev(1, `"avgTone":1e308`), ev(2, `"avgTone":1e308`), ev(3, `"avgTone":-1`))
	got, err := r.End(t.Context())
	const want = `{"records":3,"others":0,"groups":[{"by":{},"count":3,"of":{"avgTone":{"count":2,"sum":1e+308,"min":-1,"max":1e+308}}}]}`
	if err != nil || len(got) != 1 || string(got[0].Value) != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDedupOverPages(t *testing.T) {
	r := chain(t, made(t)(process.Dedup{Of: record.Mention, By: []string{"mentionIdentifier"}}.New())).Begin("b")
	page(t, r, me(1, `"mentionIdentifier":"a"`))
	if got := fates(page(t, r, me(2, `"mentionIdentifier":"a"`), me(3, `"mentionIdentifier":"b"`))); got != "2-duplicate 3" {
		t.Error(got)
	}
}

var errBroken = errors.New("it is broken")

// failing changes, skips and refuses before it fails.
func failing(how string) process.Processor {
	return process.Each("mine", func(_ context.Context, _ string, it *process.Item) error {
		if it.Record.ID%2 == 0 {
			return nil
		}
		_ = it.Record.SetText(record.EventCode, "changed")
		_ = it.Record.Add("more", []byte("1"))
		it.Skip("half done")
		if how == "panic" {
			panic("oh")
		}
		return errBroken
	})
}

func TestWhatAFailureMeans(t *testing.T) {
	for _, c := range []struct {
		how  string
		on   process.OnError
		want string
	}{
		{"error", process.Pass, "1 2 3"},
		{"error", process.Dead, "1!transient 2 3!transient"},
		{"error", process.Retry, "error"},
		{"panic", process.Pass, "1 2 3"},
		{"panic", process.Dead, "1!internal 2!internal 3!internal"},
		{"panic", process.Retry, "error"},
	} {
		ch := chain(t, process.Step{Processor: failing(c.how), OnError: c.on, Kind: record.Event}, made(t)(process.Map{ID: "after", Values: []process.Value{{"seen", "true"}}}.New()))
		r := ch.Begin("b")
		items := []process.Item{ev(1, `"eventCode":"x"`), ev(2, `"eventCode":"x"`), ev(3, `"eventCode":"x"`)}
		err := r.Page(t.Context(), items)
		if c.want == "error" {
			failed, ok := errors.AsType[*process.Failed](err)
			if !ok || failed.Processor != "mine" || r.Page(t.Context(), items) == nil {
				t.Errorf("%s, %s: %v", c.how, c.on, err)
			}
			if _, err := r.End(t.Context()); err == nil {
				t.Errorf("%s, %s: the end is taken", c.how, c.on)
			}
			continue
		}
		if err != nil || fates(items) != c.want {
			t.Errorf("%s, %s: %s, %v; want %s", c.how, c.on, fates(items), err, c.want)
		}
		for i := range items {
			out := string(items[i].Record.AppendOut(nil))
			if strings.Contains(out, "changed") || strings.Contains(out, "more") || strings.Contains(out, `"seen":true`) != (items[i].Fate == tidemill.None) {
				t.Errorf("%s, %s: record %d is %s", c.how, c.on, i, out)
			}
		}
		if s := ch.Stats()[1]; s.Failed == 0 || s.Records != 3 {
			t.Errorf("%s, %s: stats are %+v", c.how, c.on, s)
		}
	}
}

func TestTheEndOfTheContextIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := process.Each("mine", func(ctx context.Context, _ string, _ *process.Item) error {
			cancel()
			return ctx.Err()
		})
		c := chain(t, process.Step{Processor: p, OnError: process.Dead})
		if err := c.Begin("b").Page(ctx, []process.Item{ev(1, "")}); !errors.Is(err, context.Canceled) || c.Stats()[1].Failed != 0 {
			t.Errorf("%v, %+v", err, c.Stats())
		}
	})
}

func TestChainsAreChecked(t *testing.T) {
	ok := process.Each("a", nil)
	for name, steps := range map[string][]process.Step{
		"no processor":         {{}},
		"no name":              {{Processor: process.Each("", nil)}},
		"a name twice":         {{Processor: ok}, {Processor: ok}},
		"the name of reading":  {{Processor: process.Each("read", nil)}},
		"no meaning of errors": {{Processor: ok, OnError: 9}},
		"no kind":              {{Processor: ok, Kind: 9}},
	} {
		if _, err := process.New(steps, process.Options{}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, s := range []string{"pass", "retry", "dead", ""} {
		if o, err := process.ParseOnError(s); err != nil || s != "" && o.String() != s {
			t.Errorf("%q is %v, %v", s, o, err)
		}
	}
	if _, err := process.ParseOnError("stop"); err == nil {
		t.Error("stop is taken")
	}
}

func BenchmarkPage(b *testing.B) {
	filter, err := process.Filter{Keep: `(numMentions ?? 0) > 0 && actor1CountryCode in ["USA", "DEU"]`}.New()
	if err != nil {
		b.Fatal(err)
	}
	c, err := process.New([]process.Step{{Processor: filter}}, process.Options{})
	if err != nil {
		b.Fatal(err)
	}
	items := make([]process.Item, 1000)
	for i := range items {
		items[i] = ev(i, `"numMentions":5,"actor1CountryCode":"USA"`)
	}
	b.ReportAllocs()
	r := c.Begin("b")
	for b.Loop() {
		if err := r.Page(b.Context(), items); err != nil {
			b.Fatal(err)
		}
	}
}
