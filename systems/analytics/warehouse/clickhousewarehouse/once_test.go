package clickhousewarehouse

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// raw is how many rows are stored, repeated ones counted.
func raw(t testing.TB, s *Store) string {
	t.Helper()
	return text(t, s.conn, "SELECT toString(count()) FROM "+s.names.events)
}

// A batch that is tried again differs by its time of ingesting, and has the same token. Without
// the token it is stored again, and FINAL shows it once.
func TestABatchTriedAgainIsDroppedByItsToken(t *testing.T) {
	s := store(t, fresh(t), Options{Recent: -1})
	exec(t, s.conn, "SYSTEM STOP MERGES "+s.names.events)
	rows := evs(0, 1000)
	for range 3 {
		for _, e := range rows {
			e.IngestedAt = e.IngestedAt.Add(time.Second)
		}
		insert(t, s, rows...)
	}
	if n := raw(t, s); n != "1000" {
		t.Errorf("the same batch three times left %s rows, want 1000", n)
	}
	insert(t, s, evs(1, 1001)...) // one event less, one more: another batch
	if n := raw(t, s); n != "2000" {
		t.Errorf("with another batch there are %s rows, want 2000", n)
	}
	if n, err := s.Count(t.Context(), uuid.Nil); err != nil || n != 1001 {
		t.Errorf("Count = %d, %v; want 1001", n, err)
	}
	exec(t, s.conn, "ALTER TABLE "+s.names.events+" MODIFY SETTING non_replicated_deduplication_window = 0")
	insert(t, s, rows...)
	if n := raw(t, s); n != "3000" {
		t.Errorf("where tokens are not looked at, a batch tried again left %s rows, want 3000: the test proves nothing", n)
	}
	if n, err := s.Count(t.Context(), uuid.Nil); err != nil || n != 1001 {
		t.Errorf("Count = %d, %v; want 1001", n, err)
	}
}

func TestATokenIsOfTheWholeBatchInItsOrder(t *testing.T) {
	token := func(change func(rows []*event.Event) []*event.Event) string {
		b := newBlock()
		for i, e := range change(evs(0, 3)) {
			b.add(e, int64(i))
		}
		_, token, err := b.encode()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	same := func(rows []*event.Event) []*event.Event { return rows }
	base := token(same)
	if base != token(same) {
		t.Fatal("one batch has two tokens")
	}
	if base != token(func(r []*event.Event) []*event.Event { r[1].IngestedAt = noon.Add(time.Hour); return r }) {
		t.Error("a batch that is tried later has another token")
	}
	seen := map[string]string{base: "the batch"}
	for name, change := range map[string]func(r []*event.Event) []*event.Event{
		"a row less":        func(r []*event.Event) []*event.Event { return r[:2] },
		"another order":     func(r []*event.Event) []*event.Event { return []*event.Event{r[1], r[0], r[2]} },
		"another row":       func(r []*event.Event) []*event.Event { return append(r[:2], ev(9)) },
		"other properties":  func(r []*event.Event) []*event.Event { r[0].Properties = []byte(`{"n":2}`); return r },
		"another person":    func(r []*event.Event) []*event.Event { r[0].Person = uuid.Max; return r },
		"another time":      func(r []*event.Event) []*event.Event { r[0].Timestamp = noon.Add(-1); return r },
		"another country":   func(r []*event.Event) []*event.Event { r[2].Country = "DE"; return r },
		"text that moved":   func(r []*event.Event) []*event.Event { r[2].URL, r[2].Referrer = "", "x"; return r },
		"text where it was": func(r []*event.Event) []*event.Event { r[2].URL, r[2].Referrer = "x", ""; return r },
		"another origin":    func(r []*event.Event) []*event.Event { r[2].Origin++; return r },
	} {
		got := token(change)
		if of, ok := seen[got]; ok {
			t.Errorf("%s has the token of %s", name, of)
		}
		seen[got] = name
	}
}

func TestAnInsertWhoseAnswerIsLostIsThereOnceAfterTheNext(t *testing.T) {
	conn := fresh(t)
	store(t, conn, Options{})
	exec(t, conn, "SYSTEM STOP MERGES "+namesIn(conn.Database()).events)
	u, err := url.Parse(serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	link := testenv.NewLink(t, u.Host)
	s := store(t, open(t, "http://"+link.Addr, clickhousehttp.Options{Database: conn.Database(), Timeout: 10 * time.Second}), Options{})
	rows := evs(0, 500)
	took := make([]warehouse.Outcome, len(rows))
	link.LoseAnswers(0)
	err = s.Insert(t.Context(), rows, took)
	if kind := tidemill.KindOf(err); err == nil || kind != tidemill.Transient {
		t.Fatalf("without an answer Insert returned %v of kind %v, want transient", err, kind)
	}
	if err := s.Override(t.Context(), []person.Override{{Ref: rows[0].Ref(), Person: uuid.Max, Version: 3}}); tidemill.KindOf(err) != tidemill.Transient {
		t.Fatalf("without an answer Override returned %v", err)
	}
	link.Heal()
	if n := raw(t, store(t, conn, Options{})); n != "500" {
		t.Fatalf("%s rows arrived, want 500: the test proves nothing", n)
	}
	insert(t, s, rows...)
	if n := raw(t, s); n != "500" {
		t.Errorf("after the second try there are %s rows, want 500", n)
	}
	if got := list(t, s, warehouse.Filter{Project: rows[0].Project, Max: 1}); len(got) != 1 || got[0].Person != uuid.Max {
		t.Errorf("listed %+v", got)
	}
	link.BlackHole()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Insert(ctx, evs(500, 501), took[:1]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("through a black hole Insert returned %v", err)
	}
}

func serverURL(t testing.TB) string { u, _ := testenv.ClickHouse(t); return u }

// The server dies again and again during several batches. Acknowledged rows are stored, and the
// others are stored once after they are tried again.
func TestAServerKilledInMidInsertHasEachEventOnce(t *testing.T) {
	server := testenv.Start(t, testenv.PrivateClickHouse)
	s := store(t, open(t, server.URL, clickhousehttp.Options{Database: "warehouse", Timeout: 20 * time.Second}), Options{Recent: -1, NoDictionary: true})
	exec(t, s.conn, "SYSTEM STOP MERGES "+s.names.events)
	const batches, size, lanes = 24, 200, 3
	failed := 0
	var mu sync.Mutex
	var once sync.Once
	half, back := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			for i := lane; i < batches; i += lanes {
				if i >= batches/2 {
					once.Do(func() { close(half) })
				}
				took := make([]warehouse.Outcome, size)
				for try := 0; ; try++ {
					err := s.Insert(t.Context(), evs(i*size, (i+1)*size), took)
					if err == nil {
						break
					}
					if kind := tidemill.KindOf(err); kind != tidemill.Transient && kind != tidemill.Timeout || try > 20 {
						t.Errorf("Insert: %v (%v)", err, kind)
						return
					}
					mu.Lock()
					failed++
					mu.Unlock()
					<-back
				}
			}
		})
	}
	<-half
	goOn := sync.OnceFunc(func() { close(back) })
	defer goOn()
	server.Kill()
	server.Restart()
	goOn()
	wg.Wait()
	t.Logf("%d tries failed", failed)
	if failed == 0 {
		t.Error("no insert met the server's death: the test proves nothing")
	}
	if n, err := s.Count(t.Context(), uuid.Nil); err != nil || n != batches*size {
		t.Errorf("Count = %d, %v; want %d", n, err, batches*size)
	}
	if n := raw(t, s); n != fmt.Sprint(batches*size) {
		t.Errorf("%s rows are stored, want %d", n, batches*size)
	}
}

// A batch of an import may have more months than the server's default allows in one insert.
func TestABatchMayReachOverManyMonths(t *testing.T) {
	s := store(t, fresh(t), Options{Recent: -1, NoSync: true})
	rows := evs(0, 120)
	for i, e := range rows {
		e.Timestamp = time.Date(1990, time.Month(i+1), 1, 0, 0, 0, 0, time.UTC)
	}
	insert(t, s, rows...)
	insert(t, s, rows...)
	if n := raw(t, s); n != "120" {
		t.Errorf("%s rows are stored, want 120", n)
	}
	if got := list(t, s, warehouse.Filter{Project: rows[0].Project, From: rows[90].Timestamp, To: rows[93].Timestamp}); len(got) != 3 {
		t.Errorf("%d events of three months", len(got))
	}
}

func TestRowsComeBackToTheByte(t *testing.T) {
	s := store(t, fresh(t), Options{Recent: -1})
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	contents := map[string]string{"all bytes": string(every), "nothing": "", "NUL": "\x00", "no UTF-8": "a\xffb\xc3", "an exception": "Code: 60. DB::Exception: no",
		"quotes": `'"\` + "`\\'; DROP TABLE events; --\t\r\n", "a mebibyte": large}
	times := []time.Time{time.Unix(0, 0), time.UnixMilli(-1), time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2299, 12, 31, 23, 59, 59, 999e6, time.UTC), noon}
	want := map[uuid.UUID]*event.Event{}
	var rows []*event.Event
	for _, c := range contents {
		for _, at := range times {
			if len(c) > 1000 && at != noon {
				continue
			}
			e := ev(len(rows))
			for i := range texts {
				if *texts[i].of(e) = c; len(c) > 1000 && i > 3 {
					*texts[i].of(e) = "x"
				}
			}
			e.Properties, e.UserProperties = []byte(c), []byte(c)
			e.ScreenWidth, e.ScreenHeight, e.Origin = 65535, uint16(len(rows)), 1<<64-1
			e.Timestamp, e.IngestedAt = at.UTC(), at.UTC()
			if len(c) == 0 {
				e.Properties, e.UserProperties = nil, nil
			}
			want[e.ID] = e
			rows = append(rows, e)
		}
	}
	insert(t, s, rows...)
	got := list(t, s, warehouse.Filter{Project: rows[0].Project})
	if len(got) != len(rows) {
		t.Fatalf("listed %d rows, want %d", len(got), len(rows))
	}
	for i := range got {
		if w := want[got[i].ID]; fmt.Sprintf("%#v", got[i]) != fmt.Sprintf("%#v", *w) {
			t.Errorf("stored %.300q\nread %.300q", fmt.Sprintf("%#v", *w), fmt.Sprintf("%#v", got[i]))
		}
	}
	for name, c := range contents {
		if c == "" || len(c) > 1000 {
			continue
		}
		if got := list(t, s, warehouse.Filter{Project: rows[0].Project, Distinct: c, Name: c}); len(got) != len(times) {
			t.Errorf("a filter of %s found %d events, want %d", name, len(got), len(times))
		}
	}
}

func TestAListingIsReadPageByPage(t *testing.T) {
	s := store(t, fresh(t), Options{Recent: -1, NoSync: true})
	insert(t, s, evs(0, 9)...)
	for _, c := range []struct{ rows, bytes, max int }{{4, 1 << 20, 0}, {9, 1 << 20, 0}, {1, 1 << 20, 0}, {4, 1, 0}, {5, 3000, 0}, {4, 1 << 20, 3}, {4, 1 << 20, 8}, {4, 1, 3}} {
		f := warehouse.Filter{Project: ev(0).Project, Max: c.max}
		l := &listing{store: s, project: f.Project, left: f.Max, pageRows: c.rows, pageBytes: c.bytes}
		l.prepare(f)
		if err := l.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []int
		again := false
		for l.more {
			if err := l.read(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, e := range l.page {
				got = append(got, int(e.Origin))
			}
			if !again {
				again = true
				insert(t, s, evs(9, 12)...) // not in this listing, by its time or its position
			}
		}
		want := 9
		if c.max > 0 {
			want = c.max
		}
		for i, n := range got {
			if i != n {
				t.Fatalf("%+v: listed %v", c, got)
			}
		}
		if len(got) != want {
			t.Errorf("%+v: listed %d events, want %d", c, len(got), want)
		}
		exec(t, s.conn, "TRUNCATE TABLE "+s.names.events)
		insert(t, s, evs(0, 9)...)
	}
}

func TestTimesOfStoringAreNeverGivenTwice(t *testing.T) {
	now := noon
	s := &Store{o: Options{Now: func() time.Time { return now }}}
	first := s.stamps(10)
	second := s.stamps(1) // the clock stands
	now = now.Add(-time.Hour)
	third := s.stamps(5)
	if first != noon.UnixMicro() || second != first+10 || third != second+1 {
		t.Errorf("stamps began at %d, %d, %d", first, second, third)
	}
}

func TestRecentHoldsTheNewestAndNoMore(t *testing.T) {
	r := newRecent(100)
	at := func(i int) key { return key{ev(i).Project, ev(i).ID} }
	put := func(i int, origin uint64) {
		e := ev(i)
		e.Origin = origin
		r.put([]*event.Event{e}, []int{0})
	}
	for i := range 1000 {
		put(i, uint64(i))
		for j := max(0, i-99); j <= i; j++ {
			if origin, ok := r.get(at(j)); !ok || origin != uint64(j) {
				t.Fatalf("after %d events, event %d is known as %d, %t", i+1, j, origin, ok)
			}
		}
	}
	if n := len(r.young) + len(r.old); n > 200 {
		t.Errorf("%d events are held, want 200 at most", n)
	}
	put(999, 5)
	if origin, _ := r.get(at(999)); origin != 999 {
		t.Errorf("the first origin was replaced by %d", origin)
	}
}
