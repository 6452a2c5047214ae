package sqliteprofile_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
	"github.com/tidemill/tidemill/state/profile/profiletest"
	"github.com/tidemill/tidemill/state/profile/sqliteprofile"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestConformance(t *testing.T) { profiletest.Run(t, harness) }

// harness has a ledger in the same file, whose entries are the effects.
func harness(t *testing.T, o profile.Options) profiletest.Harness {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.db")
	var db *sqlitedb.DB
	var s *sqliteprofile.Store
	var l *tableledger.Ledger[*sqlitedb.Tx]
	shut := func() {
		if db == nil {
			return
		}
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		db = nil
	}
	open := func(t *testing.T) profile.Store {
		t.Helper()
		shut()
		var err error
		if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{Readers: 2, CacheMiB: 4}); err != nil {
			t.Fatal(err)
		}
		entries, err := sqlitetable.New(t.Context(), db, tableledger.Spec(""))
		if err != nil {
			t.Fatal(err)
		}
		l = tableledger.New(entries, tableledger.Options{})
		if s, err = sqliteprofile.New(t.Context(), db, o); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Cleanup(shut)
	return profiletest.Harness{Store: open(t), Reopen: open, Close: shut,
		Within: func(ctx context.Context, effect string, do func(context.Context, profile.Profiles) error) error {
			e := &ledger.Entry{Key: effect}
			if err := l.Begin(ctx, []*ledger.Entry{e}, ledger.Begin{}); err != nil {
				return err
			}
			return l.Within(ctx, []*ledger.Entry{e}, func(ctx context.Context, tx *sqlitedb.Tx) error {
				e.State = ledger.Done
				return do(ctx, s.In(tx))
			})
		},
		Effects: func(t *testing.T) (done []string) {
			t.Helper()
			for e, err := range l.Range(t.Context(), ledger.Filter{State: ledger.Done}) {
				if err != nil {
					t.Fatal(err)
				}
				done = append(done, e.Key)
			}
			return done
		},
		Whole: func(t *testing.T) { t.Helper(); whole(t, db) },
	}
}

// whole checks what always holds.
func whole(t *testing.T, db *sqlitedb.DB) {
	t.Helper()
	for name, query := range map[string]string{
		"identities of no profile":     "SELECT count(*) FROM profile_identity i WHERE NOT EXISTS (SELECT 1 FROM profile p WHERE p.tenant=i.tenant AND p.id=i.profile)",
		"profiles without an identity": "SELECT count(*) FROM profile p WHERE NOT EXISTS (SELECT 1 FROM profile_identity i WHERE i.tenant=p.tenant AND i.profile=p.id)",
	} {
		var n int
		if err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error { return tx.QueryRow(query).Scan(&n) }); err != nil || n != 0 {
			t.Errorf("%d %s (%v)", n, name, err)
		}
	}
}

func TestDamagedAttributesConcernTheirProfileOnly(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := sqliteprofile.New(t.Context(), db, profile.Options{Externals: -1}); err == nil {
		t.Error("nonsense was taken")
	}
	s, err := sqliteprofile.New(t.Context(), db, profile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]profile.Answer, 2)
	var cs []profile.Change
	if err := s.Resolve(t.Context(), []profile.Ask{ask("m-1"), ask("m-2")}, got); err != nil {
		t.Fatal(err)
	}
	for _, a := range got {
		cs = append(cs, profile.Change{Tenant: "club", Profile: a.Profile, Attributes: []profile.Attribute{{Op: profile.Add, Key: "n", Value: []byte("1")}}})
	}
	if err := s.Update(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("UPDATE profile SET registers=x'0101' WHERE id=?", got[0].Profile[:])
		return err
	}); err != nil {
		t.Fatal(err)
	}
	failed, ok := errors.AsType[*tidemill.Partial](s.Update(t.Context(), cs))
	if !ok || len(failed.Failed) != 1 || failed.Failed[0].Index != 0 || !errors.Is(failed.Failed[0].Err, rules.ErrDamaged) {
		t.Errorf("Update: %v", failed)
	}
	if _, err := s.Get(t.Context(), "club", got[0].Profile); !errors.Is(err, rules.ErrDamaged) || tidemill.KindOf(err) != tidemill.Internal {
		t.Errorf("Get: %v is %v", err, tidemill.KindOf(err))
	}
	if p, err := s.Get(t.Context(), "club", got[1].Profile); err != nil || string(p.Object()) != `{"n":2}` {
		t.Errorf("Get of the other: %+v, %v", p, err)
	}
	if there, err := s.Delete(t.Context(), "club", got[0].Profile); err != nil || !there {
		t.Errorf("Delete: %v, %v", there, err)
	}
}

func ask(external string) profile.Ask {
	return profile.Ask{Tenant: "club", Identities: profile.Identities{External: external}, Create: true}
}
