package tabledeadletter

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

func FuzzMessage(f *testing.F) {
	f.Add(encodeMessage(&tidemill.Message{}, nil))
	f.Add(encodeMessage(&tidemill.Message{Type: "t\xff", To: "\x00", Key: []byte("k"), Time: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
		At: time.Date(9999, 1, 1, 0, 0, 0, 999999999, time.UTC), Priority: 9, Tries: 1, Handed: 2, Mark: tidemill.Mark{Shard: 1<<32 - 1, Epoch: 2, Hi: 1<<64 - 1, Lo: 4},
		Header: []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}, {}}}, []byte{}))
	f.Add([]byte{version, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		var a, b deadletter.Letter
		if decodeMessage(in, &a) != nil { // refusing is fine, panicking is not
			return
		}
		if err := decodeMessage(encodeMessage(&a.Message, a.Row), &b); err != nil {
			t.Fatalf("decode what was encoded of %q: %v", in, err)
		}
		if x, y := encodeMessage(&a.Message, a.Row), encodeMessage(&b.Message, b.Row); !bytes.Equal(x, y) {
			t.Errorf("%q is encoded as %q, then as %q", in, x, y)
		}
	})
}

// No two names have the same key, and none is too long for one.
func TestKeysTellNamesApart(t *testing.T) {
	long := strings.Repeat("x", 128)
	texts := []string{"", "a", "aa", "\x00", "\x01a", "\xfe", "\xff", long, long + "y", strings.Repeat("x", 10_000), "\x7f" + strings.Repeat("\xff", 127)}
	keys := map[string]deadletter.Name{}
	for _, pipeline := range texts {
		if key := booksKey(pipeline); len(key) > table.MaxKey {
			t.Fatalf("the key of the books of %.40q has %d bytes", pipeline, len(key))
		}
		keys[booksKey(pipeline)] = deadletter.Name{Pipeline: "the books of " + pipeline}
		for _, id := range texts {
			for _, tenant := range texts {
				n := deadletter.Name{Pipeline: pipeline, Tenant: tenant, ID: id}
				for _, key := range []string{keyOf(n), contentKey(keyOf(n))} {
					if other, twice := keys[key]; twice || len(key) == 0 || len(key) > table.MaxKey {
						t.Fatalf("%.40q and %.40q have the key %.40q of %d bytes", n, other, key, len(key))
					}
					keys[key] = n
				}
				for _, c := range beginning(prefix(pipeline, id)) {
					if v := c.Value.(string); len(v) > table.MaxKey || c.Op == ">=" && keyOf(n) < v || c.Op == "<=" && keyOf(n) > v {
						t.Fatalf("the key of %.40q is not %s %.40q", n, c.Op, v)
					}
				}
			}
		}
	}
}

// A message that dies between the snapshot and the change is not the one that was seen: it
// belongs to no replay, and nobody has looked at it to discard it.
func TestASnapshotDoesNotTakeWhatDiedSince(t *testing.T) {
	for name, do := range map[string]func(*Store[*memorytable.Tx], []seen) (int, error){
		"replay":  func(s *Store[*memorytable.Tx], found []seen) (int, error) { return s.replay(t.Context(), found) },
		"discard": func(s *Store[*memorytable.Tx], found []seen) (int, error) { return s.discard(t.Context(), found) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Memory(deadletter.Options{})
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, time.UnixMilli(1000), "a", "b", "c", "e")
			found, err := s.snapshot(t.Context(), deadletter.Filter{})
			if err != nil || len(found) != 4 {
				t.Fatal(found, err)
			}
			put(t, s, time.UnixMilli(2000), "b", "d") // another instant is another failure
			if n, err := s.Delete(t.Context(), deadletter.Filter{IDs: []string{"e"}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			put(t, s, time.UnixMilli(3000), "e") // another dead letter of the name
			if n, err := do(s, found); n != 2 || err != nil {
				t.Errorf("%d, %v; want the 2 that were seen as they are", n, err)
			}
		})
	}
}

func put(t *testing.T, s deadletter.Store, at time.Time, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := s.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "p", Cause: "c", At: at, Message: &tidemill.Message{ID: id}}}); err != nil {
			t.Fatal(err)
		}
	}
}

// counting calls do when something is counted.
type counting struct {
	table.Store[Record, *memorytable.Tx]
	do func()
}

func (c *counting) Count(ctx context.Context, most int, where ...table.Cond) (int, error) {
	n, err := c.Store.Count(ctx, most, where...)
	c.do()
	return n, err
}

func TestBooksAreOfOneMoment(t *testing.T) {
	tab, err := memorytable.New(memorytable.NewDB(), Spec())
	if err != nil {
		t.Fatal(err)
	}
	c := &counting{Store: tab}
	s, err := New[*memorytable.Tx](t.Context(), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, time.UnixMilli(1), "a", "b")
	for _, c.do = range []func(){func() {}, func() { put(t, s, time.UnixMilli(1), "c") }} {
		b, err := s.Open("p").(tidemill.Bookkeeper).Books(t.Context())
		if err != nil || b.Off() != 0 || b.Pending < 2 {
			t.Errorf("books %+v, %v; off by %d", b, err, b.Off())
		}
	}
}

func TestLookIsNoNegativeTime(t *testing.T) {
	if _, err := New[*memorytable.Tx](t.Context(), nil, Options{Look: -1}); err == nil {
		t.Error("it was taken")
	}
	if _, err := Memory(deadletter.Options{Max: -1}); err == nil {
		t.Error("options of the role are not checked")
	}
}

// What another process asked for is found when the source looks, and not before.
func TestASourceLooksForWhatOthersAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab, err := memorytable.New(memorytable.NewDB(), Spec())
		if err != nil {
			t.Fatal(err)
		}
		open := func() *Store[*memorytable.Tx] {
			s, err := New(t.Context(), tab, Options{Look: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		mine, other := open(), open()
		put(t, mine, time.Now(), "a")
		start, got := time.Now(), make(chan time.Duration)
		go func() {
			if n, err := mine.Open("p").Receive(t.Context(), []*tidemill.Message{{}}); n != 1 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			got <- time.Since(start)
		}()
		time.Sleep(time.Second)
		if n, err := other.Replay(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if took := <-got; took != 10*time.Second {
			t.Errorf("it was found after %v, want 10s", took)
		}
		start = time.Now()
		if _, err := other.Open("p").Receive(t.Context(), []*tidemill.Message{{}}); err != nil || time.Since(start) != 30*time.Second {
			t.Errorf("%v after %v: a lease of another process is over after 30s", err, time.Since(start))
		}
	})
}

// Of dead letters that wait in any order, the first says when to look again; those that are held,
// and those of other pipelines, do not.
func TestTheFirstThatIsDueIsNext(t *testing.T) {
	for seed := range uint64(50) {
		tab, err := memorytable.New(memorytable.NewDB(), Spec())
		if err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(1, seed))
		at := func() time.Time { return time.UnixMilli(1000 + rnd.Int64N(100_000)).UTC() }
		var rows []*Record
		var want time.Time
		n := rnd.IntN(200)
		for i := range n {
			r := &Record{key: fmt.Sprint("p", i), state: replaying, seq: uint64(i + 1)}
			if r.Pipeline, r.Due = "p", at(); i%3 == 0 {
				r.Until = r.Due.Add(time.Second) // handed out after it was due
			}
			if next := r.Next(); i == 0 || next.Before(want) {
				want = next
			}
			first, other := Record{key: fmt.Sprint("q", i), state: replaying, seq: uint64(i + 1)}, Record{key: fmt.Sprint("h", i), seq: uint64(i + 1)}
			first.Pipeline, first.Due, other.Pipeline, other.Due = "q", time.UnixMilli(1), "p", time.UnixMilli(1)
			rows = append(rows, r, &first, &other)
		}
		var got time.Time
		var any bool
		if err := tab.Update(t.Context(), func(tx table.Tx[Record], _ *memorytable.Tx) error {
			if err := tx.Put(rows); err != nil {
				return err
			}
			got, any, err = next(tx, "p")
			return err
		}); err != nil || any != (n > 0) || !got.Equal(want) {
			t.Fatalf("of %d with seed %d: %v, %v, %v; want %v", n, seed, got, any, err, want)
		}
	}
}

// A message apart goes with its dead letter, however that goes, and when it becomes small.
func TestNothingIsLeftOfAMessageApart(t *testing.T) {
	tab, err := memorytable.New(memorytable.NewDB(), Spec())
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), tab, Options{Options: deadletter.Options{Max: 1, Trim: true}})
	if err != nil {
		t.Fatal(err)
	}
	apart := func(want int) {
		t.Helper()
		n, err := tab.Count(t.Context(), 9, table.Cond{Field: "state", Op: "=", Value: content})
		if n != want || err != nil {
			t.Errorf("%d messages are apart, %v; want %d", n, err, want)
		}
	}
	at := time.UnixMilli(0)
	die := func(id string, size int) {
		t.Helper()
		at = at.Add(time.Second)
		l := tidemill.DeadLetter{Pipeline: "p", At: at, Message: &tidemill.Message{ID: id, Payload: make([]byte, size)}}
		if err := s.Put(t.Context(), []tidemill.DeadLetter{l}); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(id string, size int) {
		t.Helper()
		if err := s.Edit(t.Context(), deadletter.Name{Pipeline: "p", ID: id}, make([]byte, size), ""); err != nil {
			t.Fatal(err)
		}
	}
	die("a", apartMin-100)
	apart(0)
	die("a", apartMin)
	apart(1)
	die("a", 1)
	apart(0)
	edit("a", apartMin)
	apart(1)
	edit("a", 2)
	apart(0)
	edit("a", apartMin)
	die("b", apartMin) // a is dropped
	apart(1)
	if n, err := s.Delete(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	apart(0)
	die("c", apartMin)
	if n, err := s.Replay(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	src, m := s.Open("p"), []*tidemill.Message{{}}
	if n, err := src.Receive(t.Context(), m); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := src.Settle(t.Context(), []tidemill.Settlement{{ID: "c", Mark: m[0].Mark, Fate: tidemill.Delivered}}); err != nil {
		t.Fatal(err)
	}
	apart(0)
}

// A call may have more dead letters than numbers are taken at once, or changed in a transaction.
func TestManyInOneCall(t *testing.T) {
	s, err := Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ls := make([]tidemill.DeadLetter, table.MaxNext+10)
	for i := range ls {
		ls[i] = tidemill.DeadLetter{Pipeline: "p", At: time.UnixMilli(1), Message: &tidemill.Message{ID: fmt.Sprint(i)}}
	}
	if err := s.Put(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	n := 0
	for l, err := range s.List(t.Context(), deadletter.Filter{}) {
		if err != nil || l.ID != ls[n].Message.ID {
			t.Fatalf("number %d is %+v, %v", n, l, err)
		}
		n++
	}
	if k, err := s.Replay(t.Context(), deadletter.Filter{}); n != len(ls) || k != len(ls) || err != nil {
		t.Errorf("%d listed, %d replayed, %v; want %d", n, k, err, len(ls))
	}
}
