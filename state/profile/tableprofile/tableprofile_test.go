package tableprofile_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
	"github.com/tidemill/tidemill/state/profile/profiletest"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// effect is a record of another table, whose transactions the profiles share.
type effect struct {
	name string
	done bool
}

func effectSpec() table.Spec[effect] {
	return table.Spec[effect]{Name: "effect", Fields: []table.Field[effect]{
		{Name: "name", At: func(e *effect) any { return &e.name }},
		{Name: "done", At: func(e *effect) any { return &e.done }},
	}}
}

// tables are those of one database.
type tables[Raw any] struct {
	profiles tableprofile.Table[Raw]
	effects  table.Store[effect, Raw]
}

func store[Raw any](t testing.TB, ts tables[Raw], o profile.Options) *tableprofile.Store[Raw] {
	t.Helper()
	s, err := tableprofile.New(ts.profiles, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// harness has a store on tables, whose effects are another table's records.
func harness[Raw any](t *testing.T, open func(t testing.TB) tables[Raw], o profile.Options) profiletest.Harness {
	t.Helper()
	ts := open(t)
	s := store(t, ts, o)
	return profiletest.Harness{Store: s,
		Within: func(ctx context.Context, name string, do func(context.Context, profile.Profiles) error) error {
			return ts.effects.Update(ctx, func(tx table.Tx[effect], raw Raw) error {
				if err := tx.Put([]*effect{{name, true}}); err != nil {
					return err
				}
				return do(ctx, s.In(raw))
			})
		},
		Effects: func(t *testing.T) (names []string) {
			t.Helper()
			if err := ts.effects.View(t.Context(), func(r table.Reader[effect]) error {
				page, err := r.Page(table.Query[effect]{Most: 1000})
				for _, e := range page {
					names = append(names, e.name)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return names
		},
		Reopen: func(t *testing.T) profile.Store {
			t.Helper()
			ts = open(t)
			s = store(t, ts, o)
			return s
		},
		Whole: func(t *testing.T) { t.Helper(); tableprofile.Whole(t, s) },
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestConformanceInMemory(t *testing.T) {
	profiletest.Run(t, func(t *testing.T, o profile.Options) profiletest.Harness {
		db := memorytable.NewDB()
		o.Alone = true
		h := harness(t, func(t testing.TB) tables[*memorytable.Tx] {
			return tables[*memorytable.Tx]{must[*memorytable.Store[tableprofile.Record]](t)(memorytable.New(db, tableprofile.Spec())),
				must[*memorytable.Store[effect]](t)(memorytable.New(db, effectSpec()))}
		}, o)
		h.Reopen = nil // nothing is durable
		return h
	})
}

func onSQLite(t testing.TB, db *sqlitedb.DB) tables[*sqlitedb.Tx] {
	t.Helper()
	return tables[*sqlitedb.Tx]{must[*sqlitetable.Store[tableprofile.Record]](t)(sqlitetable.New(t.Context(), db, tableprofile.Spec())),
		must[*sqlitetable.Store[effect]](t)(sqlitetable.New(t.Context(), db, effectSpec()))}
}

func TestConformanceOnSQLite(t *testing.T) {
	profiletest.Run(t, func(t *testing.T, o profile.Options) profiletest.Harness {
		file := sqlitedbtest.NewFile(t, sqlitedb.Options{Readers: 2, CacheMiB: 4})
		o.Alone = true
		h := harness(t, func(t testing.TB) tables[*sqlitedb.Tx] { return onSQLite(t, file.Open()) }, o)
		h.Close = file.Close
		return h
	})
}

func connect(t testing.TB, url string) *postgresdb.DB {
	t.Helper()
	db := must[*postgresdb.DB](t)(postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{}))
	t.Cleanup(db.Close)
	return db
}

func onPostgres(t testing.TB, db *postgresdb.DB) tables[pgx.Tx] {
	t.Helper()
	return tables[pgx.Tx]{must[*postgrestable.Store[tableprofile.Record]](t)(postgrestable.New(t.Context(), db, tableprofile.Spec())),
		must[*postgrestable.Store[effect]](t)(postgrestable.New(t.Context(), db, effectSpec()))}
}

// TestConformanceOnPostgres has one database for all cases, as making one takes longer than a
// case.
func TestConformanceOnPostgres(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "40")
	url := testenv.Postgres(t) + "&synchronous_commit=off" // thousands of commits, without a crash
	db := connect(t, url)
	profiletest.Run(t, func(t *testing.T, o profile.Options) profiletest.Harness {
		onPostgres(t, db)
		for _, name := range []string{"tidemill_profile_record", "tidemill_effect"} {
			if _, err := db.Exec(t.Context(), "DELETE FROM "+name); err != nil {
				t.Fatal(err)
			}
		}
		h := harness(t, func(t testing.TB) tables[pgx.Tx] { return onPostgres(t, db) }, o)
		h.Other = func(t *testing.T) profile.Store { return store(t, onPostgres(t, connect(t, url)), o) }
		consistent := h.Whole
		h.Whole = func(t *testing.T) {
			t.Helper()
			consistent(t)
			var deadlocks int
			if err := db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&deadlocks) },
				"SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); err != nil || deadlocks > 0 {
				t.Errorf("%d deadlocks (%v)", deadlocks, err)
			}
		}
		return h
	})
}

// again makes each transaction again that fails by a fault.
type again struct {
	*sqlitetable.Store[tableprofile.Record]
	f *sqlitedbtest.Faults
}

func (a again) View(ctx context.Context, do func(table.Reader[tableprofile.Record]) error) error {
	return a.f.Again(func() error { return a.Store.View(ctx, do) })
}

func (a again) Update(ctx context.Context, do func(table.Tx[tableprofile.Record], *sqlitedb.Tx) error) error {
	return a.f.Again(func() error { return a.Store.Update(ctx, do) })
}

// A transaction that is called again begins anew.
func TestConformanceWhereTransactionsAreRepeated(t *testing.T) {
	f := sqlitedbtest.New(t)
	profiletest.Run(t, func(t *testing.T, o profile.Options) profiletest.Harness {
		db := f.Open(t)
		s, err := sqlitedbtest.Get(f, func() (*sqlitetable.Store[tableprofile.Record], error) {
			return sqlitetable.New(t.Context(), db, tableprofile.Spec())
		})
		if err != nil {
			t.Fatal(err)
		}
		o.Alone = true
		return profiletest.Harness{Store: store(t, tables[*sqlitedb.Tx]{profiles: again{s, f}}, o)}
	})
}

func TestNewRefusesNonsense(t *testing.T) {
	if _, err := tableprofile.Memory(profile.Options{Externals: -1}); err == nil {
		t.Error("it was accepted")
	}
}

func ask(external string) profile.Ask {
	return profile.Ask{Tenant: "club", Identities: profile.Identities{External: external, Email: external + "@club.example"}, Create: true}
}

func TestDamagedAttributesConcernTheirProfileOnly(t *testing.T) {
	s, err := tableprofile.Memory(profile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]profile.Answer, 2)
	if err := s.Resolve(t.Context(), []profile.Ask{ask("m-1"), ask("m-2")}, got); err != nil {
		t.Fatal(err)
	}
	var cs []profile.Change
	for _, a := range got {
		cs = append(cs, profile.Change{Tenant: "club", Profile: a.Profile, Attributes: []profile.Attribute{{Op: profile.Add, Key: "n", Value: []byte("1")}}})
	}
	if err := s.Update(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	tableprofile.Damage(t, s, "pclub\x00"+string(got[0].Profile[:]))
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

// known makes a profile with values that not every database can read.
func known(t *testing.T, s profile.Store) uuid.UUID {
	t.Helper()
	got := make([]profile.Answer, 1)
	if err := s.Resolve(t.Context(), []profile.Ask{ask("m-1")}, got); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), []profile.Change{{Tenant: "club", Profile: got[0].Profile, Attributes: []profile.Attribute{
		{Op: profile.Set, Key: "big", Value: []byte("12345678901234567890")}, {Op: profile.Set, Key: "odd", Value: []byte(`"\u0000\ud800 ` + "\u2028" + `"`)}}}}); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Get(t.Context(), "club", got[0].Profile); err != nil || string(p.Attributes["odd"]) != `"\u0000\ud800 `+"\u2028"+`"` {
		t.Errorf("Get: %+v, %v", p, err)
	}
	return got[0].Profile
}

const names = "1 m-1, 2 m-1@club.example"

func TestOtherProgramsReadProfilesInSQLite(t *testing.T) {
	db := must[*sqlitedb.DB](t)(sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{}))
	t.Cleanup(func() { _ = db.Close() })
	id := known(t, store(t, onSQLite(t, db), profile.Options{}))
	var row, identities string
	if err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		return errors.Join(tx.QueryRow(`SELECT tenant || ' ' || lower(hex(id)) || ' ' || (created <= updated) || ' ' || (attributes LIKE '{"big":12345678901234567890,%') || ' ' || (attributes ->> 'odd') FROM profile`).Scan(&row),
			tx.QueryRow(`SELECT group_concat(kind || ' ' || value, ', ' ORDER BY kind) FROM profile_identity WHERE tenant='club' AND profile=?`, id[:]).Scan(&identities))
	}); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("club %x 1 1 \ufffd\ufffd \u2028", id[:]); row != want {
		t.Errorf("the profile is %q, want %q", row, want)
	}
	if identities != names {
		t.Errorf("the identities are %q, want %q", identities, names)
	}
}

func TestOtherProgramsReadProfilesInPostgres(t *testing.T) {
	testenv.Need(t)
	db := connect(t, testenv.Postgres(t))
	id := known(t, store(t, onPostgres(t, db), profile.Options{}))
	var row, identities string
	if err := db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&row, &identities) },
		`SELECT tenant || ' ' || id || ' ' || (created <= updated) || ' ' || (attributes ->> 'big') || ' ' || (attributes ->> 'odd'),
		(SELECT string_agg(kind || ' ' || value, ', ' ORDER BY kind) FROM tidemill_profile_identity WHERE tenant = 'club' AND profile = p.id) FROM tidemill_profile p`); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("club %v true 12345678901234567890 \ufffd\ufffd \u2028", id); row != want {
		t.Errorf("the profile is %q, want %q", row, want)
	}
	if identities != names {
		t.Errorf("the identities are %q, want %q", identities, names)
	}
}

// watched is a table that tells of each View, after it has read, and of each Update, before it begins
// and after it is durable.
type watched struct {
	*memorytable.Store[tableprofile.Record]
	seen, writes, written func()
}

func (w *watched) Update(ctx context.Context, do func(table.Tx[tableprofile.Record], *memorytable.Tx) error) error {
	if w.writes != nil {
		w.writes()
	}
	err := w.Store.Update(ctx, do)
	if w.written != nil {
		w.written()
	}
	return err
}

func (w *watched) View(ctx context.Context, do func(table.Reader[tableprofile.Record]) error) error {
	err := w.Store.View(ctx, do)
	w.seen()
	return err
}

// TestKnownIdentitiesAreNotRead: an identity is read once, until its profile is deleted.
func TestKnownIdentitiesAreNotRead(t *testing.T) {
	w, reads := &watched{Store: memorytable.Alone(tableprofile.Spec())}, 0
	w.seen = func() { reads++ }
	s := store(t, tables[*memorytable.Tx]{profiles: w}, profile.Options{Alone: true})
	resolve := func(want int, asks ...profile.Ask) []profile.Answer {
		t.Helper()
		answers := make([]profile.Answer, len(asks))
		reads = 0
		if err := s.Resolve(t.Context(), asks, answers); err != nil {
			t.Fatal(err)
		}
		if reads != want {
			t.Errorf("it read %d times, want %d", reads, want)
		}
		return answers
	}
	made := resolve(1, ask("a"))[0].Profile
	if got := resolve(1, ask("a"), ask("a"))[1]; got.Profile != made || got.New {
		t.Errorf("read, it is %+v, want %v", got, made)
	}
	email := profile.Ask{Tenant: "club", Identities: profile.Identities{Email: "a@club.example"}}
	if got := resolve(0, ask("a"), email)[1]; got.Profile != made {
		t.Errorf("remembered, it is %+v, want %v", got, made)
	}
	if got := resolve(1, ask("a"), ask("b")); got[0].Profile != made || !got[1].New {
		t.Errorf("beside another they are %+v", got)
	}
	phone := ask("a")
	phone.Phone = "+4930123456"
	if got := resolve(1, phone)[0]; got.Profile != made {
		t.Errorf("with a phone it is %+v, want %v", got, made)
	}
	if there, err := s.Delete(t.Context(), "club", made); !there || err != nil {
		t.Fatal(there, err)
	}
	if got := resolve(1, ask("a"))[0]; !got.New || got.Profile == made {
		t.Errorf("deleted, it is %+v", got)
	}
}

// TestAProfileThatIsDeletedMeanwhileIsNotRemembered deletes a profile while another is read that is
// asked for with it: what was remembered is read again, and what was read is not remembered.
func TestAProfileThatIsDeletedMeanwhileIsNotRemembered(t *testing.T) {
	for _, remembered := range []bool{false, true} {
		w := &watched{Store: memorytable.Alone(tableprofile.Spec()), seen: func() {}}
		s := store(t, tables[*memorytable.Tx]{profiles: w}, profile.Options{Alone: true})
		resolve := func(asks ...profile.Ask) []profile.Answer {
			t.Helper()
			answers := make([]profile.Answer, len(asks))
			if err := s.Resolve(t.Context(), asks, answers); err != nil {
				t.Fatal(err)
			}
			return answers
		}
		old := resolve(ask("a"), ask("b"))[0].Profile
		if remembered {
			resolve(ask("a"))
		}
		w.seen = func() {
			w.seen = func() {}
			if there, err := s.Delete(t.Context(), "club", old); !there || err != nil {
				t.Error(there, err)
			}
		}
		between := resolve(ask("a"), ask("b"))[0] // deleted after it was read
		if remembered && !between.New {
			t.Errorf("a remembered profile that was deleted before the other was read is %+v, want a new one", between)
		}
		if got := resolve(ask("a"))[0]; got.Profile == old {
			t.Errorf("remembered %v: the deleted profile is remembered", remembered)
		}
	}
}

// TestADeletionThatOthersSeeIsNotMixedWithWhatIsRemembered: others see that a profile is gone before
// its Delete returns, and may give its identities to another.
func TestADeletionThatOthersSeeIsNotMixedWithWhatIsRemembered(t *testing.T) {
	w := &watched{Store: memorytable.Alone(tableprofile.Spec()), seen: func() {}}
	s := store(t, tables[*memorytable.Tx]{profiles: w}, profile.Options{Alone: true})
	resolve := func(a profile.Ask) profile.Answer {
		t.Helper()
		answers := make([]profile.Answer, 1)
		if err := s.Resolve(t.Context(), []profile.Ask{a}, answers); err != nil {
			t.Fatal(err)
		}
		return answers[0]
	}
	old := resolve(ask("a")).Profile
	resolve(ask("a")) // it is remembered
	var next profile.Answer
	w.writes = func() { // it is there still, and not remembered again
		w.writes = nil
		if got := resolve(ask("a")); got.Profile != old {
			t.Errorf("before it is deleted it is %+v, want %v", got, old)
		}
	}
	w.written = func() {
		w.written = nil
		next = resolve(profile.Ask{Tenant: "club", Identities: profile.Identities{Email: "a@club.example"}, Create: true})
		if got := resolve(ask("a")); !next.New || got.Err != nil || got.Profile != next.Profile {
			t.Errorf("the next one is %+v, and then %+v", next, got)
		}
	}
	if there, err := s.Delete(t.Context(), "club", old); !there || err != nil {
		t.Fatal(there, err)
	}
	for range 2 {
		if got := resolve(ask("a")); got.Profile != next.Profile {
			t.Errorf("after the deletion it is %+v, want %v", got, next.Profile)
		}
	}
}
