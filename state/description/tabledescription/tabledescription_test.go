package tabledescription_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/description"
	"github.com/tidemill/tidemill/state/description/descriptiontest"
	"github.com/tidemill/tidemill/state/description/tabledescription"
	"github.com/tidemill/tidemill/state/notice"
	"github.com/tidemill/tidemill/state/notice/postgresnotice"
	"github.com/tidemill/tidemill/state/notice/redisnotice"
	"github.com/tidemill/tidemill/state/table/servertest"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestInMemory(t *testing.T) {
	descriptiontest.Run(t, func(*testing.T) func() description.Store {
		s := tabledescription.Memory()
		return func() description.Store { return s }
	})
}

func TestInSQLite(t *testing.T) {
	descriptiontest.Run(t, func(t *testing.T) func() description.Store {
		db, told := sqlitedbtest.NewFile(t, sqlitedb.Options{}).Open(), &notice.Signal{}
		return func() description.Store {
			s, err := sqlitetable.New(t.Context(), db, tabledescription.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return tabledescription.New(s, told)
		}
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	inPostgreSQL(t, testenv.Postgres(t))
}

// Behind a pooler who waits looks every second.
func TestInPostgreSQLBehindAPooler(t *testing.T) {
	testenv.Need(t)
	pooled, _ := testenv.PgBouncer(t)
	inPostgreSQL(t, pooled)
}

func inPostgreSQL(t *testing.T, url string) {
	descriptiontest.Run(t, func(t *testing.T) func() description.Store {
		open := servertest.InPostgreSQL(t, url, tabledescription.Spec())
		return func() description.Store {
			db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			told, err := postgresnotice.New(db, "description")
			if err != nil {
				t.Fatal(err)
			}
			return tabledescription.New(open(), told)
		}
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		descriptiontest.Run(t, func(t *testing.T) func() description.Store {
			open, name := servertest.InRedis(t, client, tabledescription.Spec()), testenv.Name("description")
			t.Cleanup(func() {
				if err := client.Do(context.WithoutCancel(t.Context()), client.B().Del().Key(name+":told").Build()).Error(); err != nil {
					t.Error(err)
				}
			})
			return func() description.Store {
				told, err := redisnotice.New(client, name)
				if err != nil {
					t.Fatal(err)
				}
				return tabledescription.New(open(), told)
			}
		})
	})
}

func TestNoMoreThanMostAreKept(t *testing.T) {
	s := tabledescription.Memory()
	for i := range uint64(description.Most) {
		if _, err := s.Put(t.Context(), description.Description{List: "l", Name: fmt.Sprint(i), Text: []byte("x")}, i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Put(t.Context(), description.Description{List: "l", Name: "more", Text: []byte("x")}, description.Most); !errors.Is(err, description.ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if _, err := s.Put(t.Context(), description.Description{List: "l", Name: "0", Text: []byte("y")}, description.Most); err != nil {
		t.Errorf("another one of what is there: %v", err)
	}
	if _, err := s.Remove(t.Context(), "l", "0", description.Most+1); err != nil {
		t.Error(err)
	}
	if _, err := s.Put(t.Context(), description.Description{List: "l", Name: "more", Text: []byte("x")}, description.Most+2); err != nil {
		t.Errorf("in the place of one that was removed: %v", err)
	}
}
