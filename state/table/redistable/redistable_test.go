package redistable_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/table/servertest"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

type record = tabletest.Record

func TestConformance(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "40")
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		tabletest.Run(t, func(t testing.TB) tabletest.Harness[*redistable.Tx] {
			h := removed(t, client, testenv.Name("g"))
			h.Apart = removed(t, client, testenv.Name("g")).Open
			return h
		})
	})
}

// of is where the tables of a group are.
func of(client rueidis.Client, group string) tabletest.Harness[*redistable.Tx] {
	return tabletest.Harness[*redistable.Tx]{
		Open: func(ctx context.Context, spec table.Spec[record]) (table.Store[record, *redistable.Tx], error) {
			s, err := redistable.New(ctx, client, spec, redistable.Options{Group: group})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		In: func(s table.Store[record, *redistable.Tx], raw *redistable.Tx) table.Tx[record] {
			return s.(*redistable.Store[record]).In(context.Background(), raw)
		},
		Grows: true,
		Crash: func(testing.TB) {}, // a process keeps nothing that the server does not
	}
}

// removed is of, whose tables are removed with the test.
func removed(t testing.TB, client rueidis.Client, group string) tabletest.Harness[*redistable.Tx] {
	h := of(client, group)
	open := h.Open
	h.Open = func(ctx context.Context, spec table.Spec[record]) (table.Store[record, *redistable.Tx], error) {
		t.Cleanup(func() { servertest.Remove(t, client, group, spec) })
		return open(ctx, spec)
	}
	return h
}

func TestNewRefusesNonsense(t *testing.T) {
	if _, err := redistable.New(t.Context(), nil, tabletest.Spec("t"), redistable.Options{}); err == nil {
		t.Error("a table without a connection was opened")
	}
	testenv.Need(t)
	client := redistest.Connect(t, testenv.Redis(t))
	if _, err := redistable.New(t.Context(), client, tabletest.Spec("t"), redistable.Options{Prefix: "{a}"}); err == nil {
		t.Error("a table with a tag of another slot was opened")
	}
	if _, err := redistable.New(t.Context(), client, tabletest.Spec("t"), redistable.Options{Group: "}a"}); err == nil {
		t.Error("a group with a tag of another slot was opened")
	}
}

// Roles whose tables change together have records of their own types.
func TestTablesOfDifferentRecordsTakePartInOneTransaction(t *testing.T) {
	testenv.Need(t)
	client, spec := redistest.Connect(t, testenv.Redis(t)), tabletest.Spec(testenv.Name("t"))
	type other struct{ A, B string }
	one, err1 := redistable.New(t.Context(), client, spec, redistable.Options{Group: spec.Name})
	two, err2 := redistable.New(t.Context(), client, table.Spec[other]{Name: spec.Name + "2", Fields: []table.Field[other]{
		{Name: "a", At: func(o *other) any { return &o.A }}, {Name: "b", At: func(o *other) any { return &o.B }},
	}}, redistable.Options{Group: spec.Name})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		servertest.Remove(t, client, spec.Name, spec)
		servertest.Remove(t, client, spec.Name, table.Spec[record]{Name: spec.Name + "2"})
	})
	if err := one.Update(t.Context(), func(tx table.Tx[record], raw *redistable.Tx) error {
		return errors.Join(tx.Put([]*record{{Key: "a", Tries: 1}}), two.In(t.Context(), raw).Put([]*other{{A: "a", B: "b"}}))
	}); err != nil {
		t.Fatal(err)
	}
	if err := two.View(t.Context(), func(tx table.Reader[other]) error {
		found, err := tx.Get([]string{"a"})
		if err == nil && (found["a"] == nil || found["a"].B != "b") {
			err = fmt.Errorf("found %v", found)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// A process may end when it has said that it fills orders, and before it has. Nobody may read them
// then, and the next to open the table goes on.
func TestFillingGoesOnWhereAProcessHasEnded(t *testing.T) {
	testenv.Need(t)
	client, spec := redistest.Connect(t, testenv.Redis(t)), tabletest.Spec(testenv.Name("t"))
	before := spec
	before.Orders = spec.Orders[:5]
	old := removed(t, client, spec.Name)
	s, err := old.Open(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string) {
		t.Helper()
		if err := s.Update(t.Context(), func(tx table.Tx[record], _ *redistable.Tx) error {
			return tx.Put([]*record{{Key: key, Body: []byte(key)}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	other := spec
	other.Name = testenv.Name("t")
	if _, err := removed(t, client, other.Name).Open(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return "{table:" + name + "}:" + name + ":spec" }
	was, err1 := client.Do(t.Context(), client.B().Get().Key(at(spec.Name)).Build()).ToString()
	next, err2 := client.Do(t.Context(), client.B().Get().Key(at(other.Name)).Build()).ToString()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	said := "00000000000000ff\n" + strings.Split(was, "\n")[1] + "\n" + strings.Split(next, "\n")[1]
	if err := client.Do(t.Context(), client.B().Set().Key(at(spec.Name)).Value(said).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	put("b")
	if _, err := old.Open(t.Context(), before); err != nil { // it has nothing to fill
		t.Fatal(err)
	}
	put("c")
	now, err := old.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	put("d")
	if err := now.View(t.Context(), func(tx table.Reader[record]) error {
		page, err := tx.Page(table.Query[record]{By: "body", Most: 9})
		if err == nil && len(page) != 4 {
			err = fmt.Errorf("the order has %d of 4 records", len(page))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// A Redis without a file may come back empty: a process that runs goes on with it.
func TestATableThatRedisHasLostIsMadeAgain(t *testing.T) {
	testenv.Need(t)
	client, spec := redistest.Connect(t, testenv.Redis(t)), tabletest.Spec(testenv.Name("t"))
	s, err := removed(t, client, spec.Name).Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Update(t.Context(), func(tx table.Tx[record], _ *redistable.Tx) error { return tx.Put([]*record{{Key: "a", State: 1}}) }); err != nil {
			t.Fatal(err)
		}
		if counts, err := s.Counts(t.Context()); err != nil || counts["/1"] != 1 {
			t.Errorf("the counts are %v, %v", counts, err)
		}
		servertest.Remove(t, client, spec.Name, spec)
	}
}

// What another program has changed is an error, never another record.
func TestDamageIsAnError(t *testing.T) {
	testenv.Need(t)
	client, spec := redistest.Connect(t, testenv.Redis(t)), tabletest.Spec(testenv.Name("t"))
	s, err := redistable.New(t.Context(), client, spec, redistable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { servertest.Remove(t, client, spec.Name, spec) })
	put := func() {
		t.Helper()
		if err := s.Update(t.Context(), func(tx table.Tx[record], _ *redistable.Tx) error {
			return tx.Put([]*record{{Key: "a", Group: "shop"}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	put()
	rows := "{table:" + spec.Name + "}:" + spec.Name + ":rows"
	whole, err := client.Do(t.Context(), client.B().Hget().Key(rows).Field("a").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if err := client.Do(t.Context(), client.B().Hset().Key(rows).FieldValue().FieldValue("a", whole[:n]).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		get := s.View(t.Context(), func(tx table.Reader[record]) error { _, err := tx.Get([]string{"a"}); return err })
		page := s.View(t.Context(), func(tx table.Reader[record]) error {
			_, err := tx.Page(table.Query[record]{By: "at", Most: 9})
			return err
		})
		if (get == nil) != (n == 0) || page == nil { // an empty row is none
			t.Errorf("with %d of %d bytes of a row: Get %v, Page %v; want errors", n, len(whole), get, page)
		}
	}
}

// TestSeveralRoundTripsMakeOnePage holds that conditions on other fields find what is far behind.
func TestSeveralRoundTripsMakeOnePage(t *testing.T) {
	testenv.Need(t)
	client, spec := redistest.Connect(t, testenv.Redis(t)), tabletest.Spec(testenv.Name("t"))
	s, err := redistable.New(t.Context(), client, spec, redistable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { servertest.Remove(t, client, spec.Name, spec) })
	const n = 1700
	if err := s.Update(t.Context(), func(tx table.Tx[record], _ *redistable.Tx) error {
		var rows []*record
		for i := range n {
			rows = append(rows, &record{Key: fmt.Sprintf("%05d", i), Flag: i%800 == 799})
		}
		return tx.Put(rows)
	}); err != nil {
		t.Fatal(err)
	}
	for _, back := range []bool{false, true} {
		if err := s.Update(t.Context(), func(tx table.Tx[record], _ *redistable.Tx) error {
			page, err := tx.Page(table.Query[record]{Back: back, Most: 2, Where: []table.Cond{{Field: "flag", Op: "=", Value: true}}})
			if err == nil && (len(page) != 2 || (page[0].Key == "00799") == back || (page[1].Key == "01599") == back) {
				err = fmt.Errorf("backwards %v: %d records", back, len(page))
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	if got, err := s.Count(t.Context(), n+1); err != nil || got != n {
		t.Errorf("Count: %d, %v; want %d", got, err, n)
	}
}

func TestLostAnswers(t *testing.T) {
	testenv.Need(t)
	url := testenv.Redis(t)
	host := strings.TrimPrefix(url, "redis://")
	host, _, _ = strings.Cut(host[strings.Index(host, "@")+1:], "/")
	link := testenv.NewLink(t, host)
	group := testenv.Name("g")
	tabletest.Lost(t, link, of(redistest.Connect(t, strings.Replace(url, host, link.Addr, 1)), group), removed(t, redistest.Connect(t, url), group))
}

func TestKilled(t *testing.T) {
	testenv.Need(t)
	place := func(t *testing.T) string { return testenv.Start(t, testenv.PrivateRedis).URL }
	tabletest.Killed(t, place, func(t testing.TB, url string) tabletest.Harness[*redistable.Tx] {
		return of(redistest.Connect(t, url), "g")
	})
}
