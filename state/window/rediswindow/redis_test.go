package rediswindow

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/blob"
)

// many makes records that are worth compressing.
func many(n int) []window.Record {
	rs := make([]window.Record, n)
	for i := range rs {
		rs[i] = window.Record{Batch: "b", Kind: "event", ID: fmt.Sprint(i), Body: fmt.Appendf(nil, `{"globalEventId":%d,"words":%q}`, i, strings.Repeat("again and ", 20))}
	}
	return rs
}

// What cannot be read of a blob is counted and booked, and the others are read.
func TestADamagedBlobIsLostByName(t *testing.T) {
	client := redistest.Connect(t, testenv.Redis(t))
	ctx := t.Context()
	s := harness(t, client, Options{}).Store.(*Store)
	if err := s.Put(ctx, many(blob.MaxRecords+100), nil); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.CloseNow(ctx, "b"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	source, m := s.Open(), new(tidemill.Message)
	if _, err := source.Receive(ctx, []*tidemill.Message{m}); err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("%sd%d", s.tags[0], m.Mark.Lo)
	data, err := client.Do(ctx, client.B().Hget().Key(key).Field("2").Build()).ToString()
	if err != nil || data[3] != blob.Packed {
		t.Fatal(err, "the blob is not compressed")
	}
	if err := client.Do(ctx, client.B().Hset().Key(key).FieldValue().FieldValue("2", data[:len(data)/2]).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	into := make([]window.Record, 1000)
	p, err := s.Page(ctx, m.Mark, "", into)
	if p != (window.Page{N: blob.MaxRecords, Lost: 100}) || err != nil {
		t.Fatalf("page %+v, %v", p, err)
	}
	settle := func(e tidemill.Settlement, want tidemill.Books) {
		t.Helper()
		e.ID, e.Mark = m.ID, m.Mark
		if err := source.Settle(ctx, []tidemill.Settlement{e}); err != nil {
			t.Fatal(err)
		}
		books, err := source.(tidemill.Bookkeeper).Books(ctx)
		if books != want || books.Off() != 0 || err != nil {
			t.Fatalf("books %+v, %v; want %+v", books, err, want)
		}
		if stats, err := s.Stats(ctx); stats.Lost != 100 || err != nil {
			t.Fatalf("stats %+v, %v", stats, err)
		}
	}
	const all = blob.MaxRecords + 100
	settle(tidemill.Settlement{Fate: tidemill.Dead}, tidemill.Books{Accepted: all, Settled: tidemill.Count{Dead: all}})
	if n, err := s.Replay(ctx, window.Filter{}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := source.Receive(ctx, []*tidemill.Message{m}); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Page(ctx, m.Mark, "", into); p != (window.Page{N: blob.MaxRecords}) || err != nil { // what was lost is dead for good
		t.Fatalf("page %+v, %v", p, err)
	}
	settle(tidemill.Settlement{Fate: tidemill.Delivered, Records: tidemill.Count{Delivered: blob.MaxRecords - 1, Skipped: 1}},
		tidemill.Books{Accepted: all + blob.MaxRecords, Settled: tidemill.Count{Delivered: blob.MaxRecords - 1, Skipped: 1, Dead: all}})
}

// The data of abandoned windows expires; the data of unfinished ones lives on, and the
// windows' own hashes always do.
func TestTimeToLive(t *testing.T) {
	client := redistest.Connect(t, testenv.Start(t, testenv.PrivateRedis).URL) // all its keys are looked at
	ctx := t.Context()
	o := Options{TTL: time.Hour}
	h := harness(t, client, o)
	s := h.Store.(*Store)
	rs := many(20)
	if err := s.Put(ctx, rs, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, append(rs[:3:3], window.Record{Batch: "b", Kind: "event", ID: "more"}), nil); err != nil { // some lie in two blobs
		t.Fatal(err)
	}
	ttls := func() map[string]time.Duration {
		t.Helper()
		all := map[string]time.Duration{}
		for _, k := range keys(t, client, s.tags[0]) {
			ms, err := client.Do(ctx, client.B().Pttl().Key(s.tags[0]+k).Build()).AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			all[k[:1]] = time.Duration(ms) * time.Millisecond
			if data := strings.Contains("dim", k[:1]) && k[len(k)-1] <= '9'; data != (ms > 0) {
				t.Errorf("%q lives for %d ms", k, ms)
			}
		}
		return all
	}
	for _, kind := range []string{"d", "i", "m"} {
		if left := ttls()[kind]; left < 59*time.Minute || left > time.Hour {
			t.Fatalf("%s lives for %v, want %v", kind, left, time.Hour)
		}
	}
	for _, kind := range []string{"d", "i", "m"} { // as if most of it had passed
		for _, i := range listed(t, s) {
			if err := client.Do(ctx, client.B().Pexpire().Key(s.tags[0]+kind+i).Milliseconds(100_000).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Sweep(ctx); err != nil || ttls()["d"] > time.Minute*2 {
		t.Fatalf("renewed too early: %v, %v", ttls(), err)
	}
	h.Advance(31 * time.Minute)
	if done, err := s.Sweep(ctx); err != nil || done.Closed != 1 {
		t.Fatalf("sweep %+v, %v", done, err)
	}
	if all := ttls(); all["d"] < 59*time.Minute || all["m"] < 59*time.Minute {
		t.Fatalf("after the sweep: %v", all)
	}
}

// keys are those that begin so, without that.
func keys(t *testing.T, client rueidis.Client, prefix string) (all []string) {
	t.Helper()
	found, err := client.Do(t.Context(), client.B().Keys().Pattern(prefix+"*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range found {
		all = append(all, strings.TrimPrefix(k, prefix))
	}
	return all
}

func listed(t *testing.T, s *Store) (nos []string) {
	t.Helper()
	for i, err := range s.List(t.Context(), window.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		nos = append(nos, fmt.Sprint(i.Revision))
	}
	return nos
}

// What is missing is counted once, however often it is read, and however much it becomes.
func TestLostIsCountedOnce(t *testing.T) {
	client := redistest.Connect(t, testenv.Redis(t))
	ctx := t.Context()
	s := harness(t, client, Options{}).Store.(*Store)
	if err := s.Put(ctx, many(blob.MaxRecords+100), nil); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.CloseNow(ctx, "b"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	m := new(tidemill.Message)
	if _, err := s.Open().Receive(ctx, []*tidemill.Message{m}); err != nil {
		t.Fatal(err)
	}
	key, into := fmt.Sprintf("%sd%d", s.tags[0], m.Mark.Lo), make([]window.Record, 1000)
	for n, want := range []int{0, blob.MaxRecords, blob.MaxRecords + 100} {
		if err := client.Do(ctx, client.B().Hdel().Key(key).Field(fmt.Sprint(n)).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if p, err := s.Page(ctx, m.Mark, "", into); p.Lost != want || err != nil {
				t.Fatalf("page %+v, %v; want %d lost", p, err, want)
			}
			if stats, err := s.Stats(ctx); stats.Lost != uint64(want) || err != nil {
				t.Fatalf("stats %+v, %v; want %d lost", stats, err, want)
			}
		}
	}
}

// A record that comes again is kept again where its data has gone.
func TestPutsWhatIsGone(t *testing.T) {
	client := redistest.Connect(t, testenv.Redis(t))
	ctx := t.Context()
	h := harness(t, client, Options{})
	s := h.Store.(*Store)
	if err := s.Put(ctx, many(10), nil); err != nil {
		t.Fatal(err)
	}
	id := window.ID("b", 0)[:2] + listed(t, s)[0]
	h.Lose(t, id)
	kept := make([]window.Kept, 10)
	if err := s.Put(ctx, many(10), kept); err != nil || kept[0] != window.Overwrote {
		t.Fatal(err, kept)
	}
	if p, err := s.Peek(ctx, id, "", make([]window.Record, 20)); p.N != 10 || err != nil {
		t.Fatalf("page %+v, %v", p, err)
	}
}

// When a window has ended, nothing of it is left in Redis.
func TestNothingIsLeftBehind(t *testing.T) {
	client := redistest.Connect(t, testenv.Start(t, testenv.PrivateRedis).URL) // all its keys are looked at
	ctx := t.Context()
	s := harness(t, client, Options{}).Store.(*Store)
	source, m := s.Open(), new(tidemill.Message)
	for _, fate := range []tidemill.Fate{tidemill.Delivered, tidemill.Skipped, tidemill.Dead} {
		rs := many(1200)
		rs[0].Expect = 1200
		for range 2 {
			if err := s.Put(ctx, append(rs, window.Record{Batch: "b", Kind: "x", ID: fmt.Sprint(time.Now().UnixNano())}), nil); err != nil {
				t.Fatal(err)
			}
		}
		if done, err := s.Sweep(ctx); done.Closed != 1 || err != nil {
			t.Fatal(done, err)
		}
		for again := fate == tidemill.Dead; ; again = false {
			if _, err := source.Receive(ctx, []*tidemill.Message{m}); err != nil {
				t.Fatal(err)
			}
			end := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: fate}}
			if !again && fate == tidemill.Dead {
				end[0].Fate = tidemill.Delivered
			}
			if err := source.Settle(ctx, end); err != nil || end[0].Outcome != tidemill.Applied {
				t.Fatal(err, end[0].Outcome)
			}
			if !again {
				break
			}
			if n, err := s.Replay(ctx, window.Filter{}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	for _, k := range keys(t, client, s.tags[0]) {
		if k != "books" && k != "wake" {
			t.Errorf("%q is left", k)
		}
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	client := redistest.Connect(t, testenv.Redis(t))
	for _, o := range []Options{{Prefix: "a{b}"}, {Shards: -1}, {Shards: MaxShards + 1}, {TTL: time.Minute}, {Options: window.Options{Window: -1}}} {
		if _, err := New(client, o); err == nil {
			t.Errorf("New took %+v", o)
		}
	}
	if _, err := New(rueidis.Client(nil), Options{}); err == nil {
		t.Error("New took no connection")
	}
}

// Deleting the hash of a window costs that window, and holds up no other.
func TestAWindowOfWhichNothingIsKnownHoldsUpNoOther(t *testing.T) {
	client := redistest.Connect(t, testenv.Start(t, testenv.PrivateRedis).URL) // all its keys are looked at
	ctx := t.Context()
	h := harness(t, client, Options{})
	s := h.Store.(*Store)
	source := s.Open()
	put := func(batch string, n int) (no string) {
		t.Helper()
		rs := many(n)
		for i := range rs {
			rs[i].Batch = batch
		}
		if err := s.Put(ctx, rs, nil); err != nil {
			t.Fatal(err)
		}
		all := listed(t, s)
		return all[len(all)-1]
	}
	forget := func(no string) {
		t.Helper()
		if n, err := client.Do(ctx, client.B().Del().Key(s.tags[0]+"w"+no).Build()).AsInt64(); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	receive := func(batch string) {
		t.Helper()
		brief, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		m := new(tidemill.Message)
		if n, err := source.Receive(brief, []*tidemill.Message{m}); n != 1 || err != nil || string(m.Key) != batch {
			t.Fatalf("received %d, %q, %v; want the window of %q", n, m.Key, err, batch)
		}
		end := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}}
		if err := source.Settle(ctx, end); err != nil || end[0].Outcome != tidemill.Applied {
			t.Fatal(err, end[0].Outcome)
		}
	}
	books := func(want tidemill.Books) {
		t.Helper()
		if books, err := source.(tidemill.Bookkeeper).Books(ctx); books != want || books.Off() != 0 || err != nil {
			t.Fatalf("books %+v, %v; want %+v", books, err, want)
		}
	}

	// One that collects: others are closed anyway.
	forget(put("a", 10))
	put("b", 5)
	h.Advance(2 * time.Minute)
	if done, err := s.Sweep(ctx); done.Closed != 1 || done.Lost != 10 || err != nil {
		t.Fatalf("sweep %+v, %v", done, err)
	}
	receive("b")
	books(tidemill.Books{Accepted: 15, Settled: tidemill.Count{Delivered: 5, Dead: 10}})

	// One that collects, for which more comes: that is kept in another.
	forget(put("a", 3))
	put("a", 4)
	if ok, err := s.CloseNow(ctx, "a"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	receive("a")
	books(tidemill.Books{Accepted: 22, Settled: tidemill.Count{Delivered: 9, Dead: 13}})

	// One that waits: that behind it in its line is handed out.
	no := put("a", 600)
	for range 2 {
		if ok, err := s.CloseNow(ctx, "a"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		put("a", 7)
	}
	if ok, err := s.CloseNow(ctx, "a"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	forget(no)
	receive("a")
	receive("a")
	books(tidemill.Books{Accepted: 636, Settled: tidemill.Count{Delivered: 23, Dead: 613}})
	for _, k := range keys(t, client, s.tags[0]) {
		if k != "books" && k != "wake" {
			t.Errorf("%q is left", k)
		}
	}
	if st, err := s.Stats(ctx); st.Lost != 613 || st.Active.Records+st.Ready.Records+st.Leased.Records != 0 || err != nil {
		t.Errorf("stats %+v, %v", st, err)
	}
}

// A cursor comes from outside: one that no page gave must not keep anybody reading.
func TestACursorFarBehindABlobIsRefused(t *testing.T) {
	client := redistest.Connect(t, testenv.Redis(t))
	s := harness(t, client, Options{}).Store.(*Store)
	if err := s.Put(t.Context(), many(10), nil); err != nil {
		t.Fatal(err)
	}
	id := "b/" + listed(t, s)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, from := range []string{"1:9223372036854775807:0", "1:9223372036854775000:9223372036854775807"} {
		if p, err := s.Peek(ctx, id, from, make([]window.Record, 1000)); err == nil || ctx.Err() != nil {
			t.Errorf("from %s: page %+v, %v", from, p, err)
		}
	}
}
