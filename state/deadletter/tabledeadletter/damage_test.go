package tabledeadletter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/deadletter"
)

// The statements are of the dead letter id0, whose message may be apart from it.
func TestDamage(t *testing.T) {
	for _, size := range []int{7, apart} {
		for _, c := range []struct{ name, do string }{
			{"a bit of the payload", "UPDATE deadletter SET payload = CAST('q' || substr(payload, 2) AS BLOB) WHERE length(payload)>0 AND _id < 6"},
			{"a payload cut short", "UPDATE deadletter SET payload = substr(payload, 2) WHERE length(payload)>0 AND _id < 6"},
			{"a payload gone", "UPDATE deadletter SET payload = x'' WHERE length(payload)>0 AND _id < 6"},
			{"the row of the work", "UPDATE deadletter SET row = CAST('other' AS BLOB) WHERE length(payload)>0 AND _id < 6"},
			{"the rest of the message", "UPDATE deadletter SET message = x'01ff' WHERE length(payload)>0 AND _id < 6"},
			{"the rest of the message, of no known form", "UPDATE deadletter SET message = x'ff' WHERE length(payload)>0 AND _id < 6"},
			{"the checksum", "UPDATE deadletter SET sum = sum + 1 WHERE sum!=0 AND _id < 6"},
			{"the id", "UPDATE deadletter SET id = CAST('ie0' AS BLOB) WHERE length(id)>0 AND _id < 6"},
			{"the tenant", "UPDATE deadletter SET tenant = CAST('u' AS BLOB) WHERE length(id)>0 AND _id < 6"},
		} {
			t.Run(fmt.Sprintf("%s of %d bytes", c.name, size), func(t *testing.T) { damaged(t, size, c.do) })
		}
	}
	t.Run("the whole message", func(t *testing.T) { damaged(t, apart, "DELETE FROM deadletter WHERE length(payload)>0 AND _id < 6") })
}

// apart is the size of a payload that is in a record of its own.
const apart = 3000

func damaged(t *testing.T, size int, do string) {
	db, s := open(t)
	put(t, s, size, "id0")
	var n int64
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) (err error) {
		n, err = tx.Exec(do)
		return err
	}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	put(t, s, size, "id1")
	if l := list(t, s)[0]; l.Damaged == "" || !strings.Contains(l.Cause, "damaged") {
		t.Errorf("listed as %+v, want it to say what is wrong", l)
	}
	if _, err := s.Replay(t.Context(), deadletter.Filter{}); err != nil {
		t.Fatal(err)
	}
	if got := received(t, s, 1); len(got) != 1 || got[0] != "id1" {
		t.Errorf("received %q, want only the sound one", got)
	}
	l := list(t, s)[0]
	if l.State != deadletter.Held || l.Kind != tidemill.Internal || len(l.History) != 2 || !strings.Contains(l.History[1].Cause, "damaged") {
		t.Errorf("after the replay: %+v", l)
	}
	if n, err := s.Replay(t.Context(), deadletter.Filter{}); n != 0 || err != nil {
		t.Errorf("Replay again: %d, %v; want it passed over", n, err)
	}
	if n, err := s.Delete(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
		t.Errorf("Delete: %d, %v; want it discarded", n, err)
	}
	if b, err := s.Open("p").(tidemill.Bookkeeper).Books(t.Context()); err != nil || b.Off() != 0 {
		t.Errorf("books %+v, %v", b, err)
	}
}

func TestADamagedOriginalIsFound(t *testing.T) {
	for _, do := range []string{
		"UPDATE deadletter SET original = CAST('qayload' AS BLOB)",
		"UPDATE deadletter SET original = x''",
		"UPDATE deadletter SET edited = 0",
	} {
		db, s := open(t)
		put(t, s, 7, "id0")
		n := deadletter.Name{Pipeline: "p", Tenant: "t", ID: "id0"}
		if err := s.Edit(t.Context(), n, []byte("mended"), ""); err != nil {
			t.Fatal(err)
		}
		if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error { _, err := tx.Exec(do); return err }); err != nil {
			t.Fatal(err)
		}
		if l := list(t, s)[0]; l.Damaged == "" {
			t.Errorf("%s: listed as %+v, want it to say what is wrong", do, l)
		}
		if err := s.Edit(t.Context(), n, []byte("again"), ""); !errors.Is(err, deadletter.ErrDamaged) || tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%s: Edit: %v, want ErrDamaged of kind validation", do, err)
		}
		put(t, s, 7, "id0") // it dies again, whole
		if l := list(t, s)[0]; l.Damaged != "" || string(l.Payload) != "payload" || !l.Edited.IsZero() {
			t.Errorf("%s: after another death %+v", do, l)
		}
	}
}

func TestADamagedLetterThatDiesAgainIsSound(t *testing.T) {
	db, s := open(t)
	put(t, s, 7, "id0")
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("UPDATE deadletter SET payload = x'00'")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Replay(t.Context(), deadletter.Filter{}); err != nil {
		t.Fatal(err)
	}
	if got := received(t, s, 0); len(got) != 0 {
		t.Errorf("received %q", got)
	}
	put(t, s, 7, "id0")
	if l := list(t, s)[0]; l.Damaged != "" || string(l.Payload) != "payload" {
		t.Errorf("listed as %+v", l)
	}
	if _, err := s.Replay(t.Context(), deadletter.Filter{}); err != nil {
		t.Fatal(err)
	}
	if got := received(t, s, 1); len(got) != 1 {
		t.Errorf("received %q, want it", got)
	}
}

func TestADamagedHistoryLosesOnlyTheHistory(t *testing.T) {
	db, s := open(t)
	put(t, s, 7, "id0")
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("UPDATE deadletter SET history = x'0102'")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if l := list(t, s)[0]; l.Damaged != "" || len(l.History) != 1 || !strings.Contains(l.Cause, "history") || string(l.Payload) != "payload" {
		t.Errorf("listed as %+v", l)
	}
	if _, err := s.Replay(t.Context(), deadletter.Filter{}); err != nil {
		t.Fatal(err)
	}
	if got := received(t, s, 1); len(got) != 1 {
		t.Errorf("received %q, want it", got)
	}
}

func open(t *testing.T) (*sqlitedb.DB, deadletter.Store) {
	t.Helper()
	db := sqlitedbtest.NewFile(t, options).Open()
	return db, onFile(t, db, deadletter.Options{})
}

func put(t *testing.T, s deadletter.Store, size int, ids ...string) {
	t.Helper()
	for _, id := range ids {
		l := tidemill.DeadLetter{Pipeline: "p", Kind: tidemill.Partner, Cause: "answered 500", Row: []byte("row"), At: time.Now(),
			Message: &tidemill.Message{ID: id, Tenant: "t", Type: "type", Payload: []byte(strings.Repeat("payload", size/7))}}
		if err := s.Put(t.Context(), []tidemill.DeadLetter{l}); err != nil {
			t.Fatal(err)
		}
	}
}

func list(t *testing.T, s deadletter.Store) (ls []*deadletter.Letter) {
	t.Helper()
	for l, err := range s.List(t.Context(), deadletter.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ls = append(ls, l)
	}
	return ls
}

// received is what a source hands out: of what is there, at once; of nothing, a moment
// shows it.
func received(t *testing.T, s deadletter.Store, want int) (ids []string) {
	t.Helper()
	patience := 20 * time.Millisecond
	if want > 0 {
		patience = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	into := []*tidemill.Message{{}, {}, {}}
	n, _ := s.Open("p").Receive(ctx, into) // the context's error, where there is nothing
	for _, m := range into[:n] {
		ids = append(ids, m.ID)
	}
	return ids
}
