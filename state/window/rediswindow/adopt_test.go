package rediswindow

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/window"
)

// TestAdopt takes over what the keys of another program hold: nothing of it is lost unnamed.
func TestAdopt(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		ctx := t.Context()
		old := testenv.Name("old:")
		do := func(cmds ...rueidis.Completed) {
			t.Helper()
			for _, r := range client.DoMulti(ctx, cmds...) {
				if err := r.Error(); err != nil {
					t.Fatal(err)
				}
			}
		}
		b := client.B
		opened := time.Now().Add(-50 * time.Second)
		var filled []string
		fill := func(batch, set string, events int) {
			filled = append(filled, set, "batch:start:"+batch, "batch:events:"+batch, "batch:mentions:"+batch, "data:event:"+batch+":0", "data:mention:"+batch+":7_https://news.example/?a:b")
			do(b().Sadd().Key(old+set).Member(batch).Build(), b().Set().Key(old+"batch:start:"+batch).Value(strconv.FormatInt(opened.UnixMilli(), 10)).Build())
			for i := range events {
				id := strconv.Itoa(i)
				do(b().Sadd().Key(old+"batch:events:"+batch).Member(id).Build(), b().Set().Key(old+"data:event:"+batch+":"+id).Value(`{"globalEventId":`+id+`}`).Build())
			}
			id := "7_https://news.example/?a:b"
			do(b().Sadd().Key(old+"batch:mentions:"+batch).Member(id).Build(), b().Set().Key(old+"data:mention:"+batch+":"+id).Value(`{"m":1}`).Build())
		}
		fill("20250323150000", "ready:batches", 1200)
		fill("20250323151500", "active:batches", 3)
		do(b().Sadd().Key(old+"batch:events:20250323151500").Member("gone1", "gone2").Build()) // their records expired
		do(b().Sadd().Key(old+"active:batches").Member(`"quoted"`).Build(), b().Sadd().Key(old+"batch:events:quoted").Member(`"1"`).Build(),
			b().Set().Key(old+"data:event:quoted:1").Value("{}").Build())

		fill("20250323143000", "ready:batches", 2)
		do(b().Srem().Key(old + "ready:batches").Member("20250323143000").Build()) // it was killed while it delivered this one

		s := harness(t, client, Options{}).Store.(*Store)
		if err := s.Put(ctx, []window.Record{{Batch: "p/20250323151500", Kind: "event", ID: "2", Body: []byte(`{"globalEventId":2}`)}}, nil); err != nil { // half done before a crash
			t.Fatal(err)
		}
		from := Old{Prefix: old, Batch: func(id string) string { return "p/" + id }}
		want := Adopted{Batches: 4, Records: 1209, Lost: 2}
		for range 2 { // it changes nothing
			if would, err := s.Adoptable(ctx, from); would != want || err != nil {
				t.Fatalf("Adoptable: %+v, %v; want %+v", would, err, want)
			}
		}
		done, err := s.Adopt(ctx, from)
		if done != want || err != nil {
			t.Fatalf("Adopt: %+v, %v; want %+v", done, err, want)
		}
		if would, err := s.Adoptable(ctx, from); would != (Adopted{}) || err != nil {
			t.Fatalf("Adoptable once more: %+v, %v", would, err)
		}
		if done, err := s.Adopt(ctx, from); done != (Adopted{}) || err != nil {
			t.Fatalf("Adopt once more: %+v, %v", done, err)
		}
		for _, k := range filled {
			if n, err := client.Do(ctx, b().Exists().Key(old+k).Build()).AsInt64(); n != 0 || err != nil {
				t.Fatalf("of the old keys there is %q, %v", k, err)
			}
		}
		books, err := s.Open().(tidemill.Bookkeeper).Books(ctx)
		if want := (tidemill.Books{Accepted: 1211, Settled: tidemill.Count{Dead: 2}, Pending: 1209}); books != want || err != nil {
			t.Fatalf("books %+v, %v; want %+v", books, err, want)
		}
		if stats, err := s.Stats(ctx); stats.Lost != 2 || stats.Ready.Windows != 2 || stats.Active.Windows != 2 || err != nil {
			t.Fatalf("stats %+v, %v", stats, err)
		}
		for i, err := range s.List(ctx, window.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if i.Batch != "p/quoted" && i.Opened.UnixMilli() != opened.UnixMilli() {
				t.Errorf("%q was opened at %v, want %v", i.ID, i.Opened, opened)
			}
		}
		m := new(tidemill.Message)
		if n, err := s.Open().Receive(ctx, []*tidemill.Message{m}); n != 1 || err != nil || string(m.Key) != "p/20250323150000" {
			t.Fatalf("received %d, %q, %v", n, m.Key, err)
		}
		into := make([]window.Record, 2000)
		p, err := s.Page(ctx, m.Mark, "", into)
		if p.N != 1201 || p.Next != "" || err != nil {
			t.Fatalf("page %+v, %v", p, err)
		}
		kinds := map[string]int{}
		for _, r := range into[:p.N] {
			kinds[r.Kind]++
			if want := fmt.Sprintf(`{"globalEventId":%s}`, r.ID); r.Kind == "event" && string(r.Body) != want || r.Damaged != "" {
				t.Fatalf("record %+v", r)
			}
		}
		if kinds["event"] != 1200 || kinds["mention"] != 1 {
			t.Fatalf("kinds %v", kinds)
		}
	})
}

// Where ids cannot be deleted, nothing is taken for lost that is in its window, and what is
// lost is counted once, however often it is tried.
func TestAdoptAfterAnError(t *testing.T) {
	server := testenv.Start(t, testenv.PrivateRedis) // with a user of its own
	client := redistest.Connect(t, server.URL)
	ctx := t.Context()
	for _, c := range []string{"ACL SETUSER limited on >p ~* &* +@all -srem", "SADD ready:batches b", "SADD batch:events:b 1 2 3", "SET data:event:b:1 {}"} {
		if err := client.Do(ctx, client.B().Arbitrary(strings.Fields(c)...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(redistest.Connect(t, strings.Replace(server.URL, "redis://", "redis://limited:p@", 1)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if done, err := s.Adopt(ctx, Old{}); err == nil {
			t.Fatalf("Adopt: %+v", done)
		}
	}
	if s, err = New(client, Options{}); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Adopt(ctx, Old{}); done != (Adopted{Batches: 1, Records: 1, Lost: 2}) || err != nil {
		t.Errorf("Adopt: %+v, %v", done, err)
	}
	books, err := s.Open().(tidemill.Bookkeeper).Books(ctx)
	if want := (tidemill.Books{Accepted: 3, Settled: tidemill.Count{Dead: 2}, Pending: 1}); books != want || err != nil {
		t.Errorf("books %+v, %v; want %+v", books, err, want)
	}
}
