package tableledger_test

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// An entry that is kept as done is one that was begun and ended at once, but for its payload.
func TestAnEntryIsDoneAsItBegins(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s, err := sqlitetable.New(t.Context(), db, tableledger.Spec(""))
	if err != nil {
		t.Fatal(err)
	}
	l := tableledger.New(s, tableledger.Options{Now: func() time.Time { return now }})
	brought := func(key string) *ledger.Entry {
		return &ledger.Entry{Key: key, Tenant: "t", Type: "y", Print: []byte("p"), Holder: "h", Result: []byte("r")}
	}
	kept := []*ledger.Entry{brought("a"), brought("b")}
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		return errors.Join(l.Keep(s.In(t.Context(), tx), nil), l.Keep(s.In(t.Context(), tx), kept))
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error { return l.Keep(s.In(t.Context(), tx), []*ledger.Entry{{}}) }); !errors.Is(err, ledger.ErrKey) {
		t.Errorf("an entry without a key: %v", err)
	}
	c := brought("c")
	if err := l.Begin(t.Context(), []*ledger.Entry{c}, ledger.Begin{}); err != nil {
		t.Fatal(err)
	}
	c.State, c.Result = ledger.Done, []byte("r")
	if err := l.End(t.Context(), []*ledger.Entry{c}); err != nil {
		t.Fatal(err)
	}
	es := []*ledger.Entry{{Key: "a"}, {Key: "b"}, {Key: "c"}}
	if err := l.Find(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	for i, e := range es {
		if want := uint64(i + 1); e.Token != want {
			t.Errorf("entry %d has token %d, want %d", i, e.Token, want)
		}
		e.Key, e.Token = "", 0
	}
	for _, e := range es[:2] {
		if !reflect.DeepEqual(e, es[2]) {
			t.Errorf("it is %+v, want %+v", e, es[2])
		}
	}
}

// Without a clock of its own a ledger has the time of now.
func TestTheClockByDefault(t *testing.T) {
	before, e := time.Now().Truncate(time.Millisecond), &ledger.Entry{Key: "a", Holder: "h"}
	if err := tableledger.Memory(tableledger.Options{}).Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{Lease: time.Hour}); err != nil || e.Created.Before(before) || e.Created.After(time.Now()) {
		t.Errorf("created at %v, want a time since %v (%v)", e.Created, before, err)
	}
}
