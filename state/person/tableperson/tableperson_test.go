package tableperson

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/known"
	"github.com/tidemill/tidemill/state/person/persontest"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/table/servertest"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestInMemory(t *testing.T) {
	persontest.Run(t, func(*testing.T) persontest.Harness { return persontest.Harness{Store: Memory(Options{})} })
}

func TestBesideOthersOfTheTables(t *testing.T) {
	persontest.Run(t, func(*testing.T) persontest.Harness {
		s := Memory(Options{Shared: true})
		other := must[*Store[*memorytable.Tx]](t)(New(s.persons, s.moves, s.lists, s.o))
		return persontest.Harness{Store: &together{Store: s, other: other}}
	})
}

func TestInSQLite(t *testing.T) {
	for name, o := range map[string]Options{"with the default cache": {}, "with a cache that misses": {CacheMiB: misses}} {
		t.Run(name, func(t *testing.T) {
			persontest.Run(t, func(t *testing.T) persontest.Harness {
				file := sqlitedbtest.NewFile(t, sqlitedb.Options{Readers: 2, CacheMiB: 4})
				open := func(t *testing.T) person.Store { return onFile(t, file.Open(), o) }
				return persontest.Harness{Store: open(t), Reopen: open}
			})
		})
	}
}

// misses is a CacheMiB of tests: a cache that remembers nothing.
const misses = -1

func inDB(t testing.TB, db *sqlitedb.DB, o Options) (*Store[*sqlitetable.Tx], error) {
	t.Helper()
	persons, err1 := sqlitetable.New(t.Context(), db, Spec())
	moves, err2 := sqlitetable.New(t.Context(), db, MoveSpec())
	lists, err3 := sqlitetable.New(t.Context(), db, ListSpec())
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	mib := o.CacheMiB
	o.CacheMiB = max(mib, 0)
	s, err := New(persons, moves, lists, o)
	if err == nil && mib == misses {
		s.cache = known.New(0)
	}
	return s, err
}

func onFile(t testing.TB, db *sqlitedb.DB, o Options) *Store[*sqlitetable.Tx] {
	t.Helper()
	s, err := inDB(t, db, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "20")                                 // each step is a transaction
	url := testenv.Postgres(t) + "&synchronous_commit=off" // thousands of commits, without a crash
	persontest.Run(t, func(t *testing.T) persontest.Harness {
		emptied := false
		one := func(t *testing.T) person.Store {
			t.Helper()
			db := must[*postgresdb.DB](t)(postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{}))
			t.Cleanup(db.Close)
			s := onPostgres(t, db)
			if !emptied {
				if _, err := db.Exec(t.Context(), "TRUNCATE tidemill_persons, tidemill_persons_moved, tidemill_persons_list"); err != nil {
					t.Fatal(err)
				}
				emptied = true
			}
			return s
		}
		open := func(t *testing.T) person.Store { t.Helper(); return &together{Store: one(t), other: one(t)} }
		return persontest.Harness{Store: open(t), Reopen: open}
	})
}

func onPostgres(t testing.TB, db *postgresdb.DB) *Store[pgx.Tx] {
	t.Helper()
	persons := must[*postgrestable.Store[Record]](t)(postgrestable.New(t.Context(), db, Spec()))
	moves := must[*postgrestable.Store[Move]](t)(postgrestable.New(t.Context(), db, MoveSpec()))
	lists := must[*postgrestable.Store[Entry]](t)(postgrestable.New(t.Context(), db, ListSpec()))
	return must[*Store[pgx.Tx]](t)(New(persons, moves, lists, Options{Shared: true}))
}

func TestInRedis(t *testing.T) {
	testenv.Fewer(t, "20")
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		persontest.Run(t, func(t *testing.T) persontest.Harness {
			group := testenv.Name("p")
			t.Cleanup(func() {
				servertest.Remove(t, client, group, Spec())
				servertest.Remove(t, client, group, MoveSpec())
				servertest.Remove(t, client, group, ListSpec())
			})
			open := func(t *testing.T) person.Store {
				t.Helper()
				return &together{Store: onRedis(t, client, group), other: onRedis(t, client, group)}
			}
			return persontest.Harness{Store: open(t), Reopen: open}
		})
	})
}

func onRedis(t testing.TB, client redistest.Client, group string) *Store[*redistable.Tx] {
	t.Helper()
	o := redistable.Options{Group: group}
	persons := must[*redistable.Store[Record]](t)(redistable.New(t.Context(), client, Spec(), o))
	moves := must[*redistable.Store[Move]](t)(redistable.New(t.Context(), client, MoveSpec(), o))
	lists := must[*redistable.Store[Entry]](t)(redistable.New(t.Context(), client, ListSpec(), o))
	return must[*Store[*redistable.Tx]](t)(New(persons, moves, lists, Options{Shared: true}))
}

// together are two processes on the same tables, which take turns.
type together struct {
	person.Store
	other person.Store
	turns atomic.Uint64
}

func (p *together) next() person.Store {
	if p.turns.Add(1)%2 == 0 {
		return p.other
	}
	return p.Store
}

func (p *together) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	return p.next().Resolve(ctx, refs, into)
}

func (p *together) Apply(ctx context.Context, changes []person.Change) error {
	return p.next().Apply(ctx, changes)
}

func (p *together) Merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	return p.next().Merge(ctx, merges, outcomes)
}

func (p *together) Show(ctx context.Context, r person.Ref) (*person.Person, error) {
	return p.next().Show(ctx, r)
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

func TestReadersBySQLInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	db := must[*postgresdb.DB](t)(postgresdb.Open(t.Context(), tidemill.NewSecret(testenv.Postgres(t)), postgresdb.Options{}))
	t.Cleanup(db.Close)
	s := onPostgres(t, db)
	apply(t, s, says("a", noon, set("plan", `"free"`)), says("b", noon))
	merge(t, s, "u", "a")
	var got string
	if err := db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&got) },
		`SELECT p.id::text || ' ' || (convert_from(p.properties, 'UTF8')::json->>'plan') || ' ' || string_agg(convert_from(d.distinct_id, 'UTF8') || d.version, ',' ORDER BY d.distinct_id)
			FROM tidemill_person p JOIN tidemill_person_distinct_id d ON d.person = p.id WHERE p.identified GROUP BY p.id, p.properties`); err != nil {
		t.Fatal(err)
	}
	if want := person.ID(ref("u")).String() + " free a1,u0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
