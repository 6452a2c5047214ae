package sqlitedeadletter

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
)

// A message that dies between the snapshot and the change is not the one that was seen: it
// belongs to no replay, and nobody has looked at it to discard it.
func TestASnapshotDoesNotTakeWhatDiedSince(t *testing.T) {
	for name, do := range map[string]func(*Store, []seen) (int, error){
		"replay":  func(s *Store, found []seen) (int, error) { return s.replay(t.Context(), found) },
		"discard": func(s *Store, found []seen) (int, error) { return s.discard(t.Context(), found) },
	} {
		t.Run(name, func(t *testing.T) {
			db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{Readers: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			s, err := New(t.Context(), db, deadletter.Options{})
			if err != nil {
				t.Fatal(err)
			}
			at := time.UnixMilli(1)
			put := func(ids ...string) {
				at = at.Add(time.Second) // another instant is another failure
				for _, id := range ids {
					if err := s.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "p", Cause: "c", At: at, Message: &tidemill.Message{ID: id}}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			put("a", "b", "c")
			found, err := s.snapshot(t.Context(), deadletter.Filter{}, "")
			if err != nil || len(found) != 3 {
				t.Fatal(found, err)
			}
			put("b", "d")
			if n, err := do(s, found); n != 2 || err != nil {
				t.Errorf("%d, %v; want the 2 that were seen as they are", n, err)
			}
		})
	}
}

// A dead letter that was handed out anew while its former settlement was in flight is kept.
func TestForgettingOneHandOutKeepsTheNext(t *testing.T) {
	old, now := tidemill.Mark{Epoch: 1, Hi: 1, Lo: 5}, tidemill.Mark{Epoch: 2, Hi: 1, Lo: 5}
	c := &source{out: map[int64]tidemill.Mark{5: now}}
	if c.forget([]tidemill.Mark{old}); c.out[5] != now {
		t.Error("the newer hand-out was forgotten")
	}
	if c.forget([]tidemill.Mark{now}); len(c.out) != 0 {
		t.Error("what has ended is kept for ever")
	}
}
