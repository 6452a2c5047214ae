package tabledescription_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/description"
	"github.com/tidemill/tidemill/state/description/descriptiontest"
	"github.com/tidemill/tidemill/state/description/tabledescription"
	"github.com/tidemill/tidemill/state/table/servertest"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestInMemory(t *testing.T) {
	descriptiontest.Run(t, func(*testing.T) description.Store { return tabledescription.Memory() })
}

func TestInSQLite(t *testing.T) {
	descriptiontest.Run(t, func(t *testing.T) description.Store {
		s, err := sqlitetable.New(t.Context(), sqlitedbtest.NewFile(t, sqlitedb.Options{}).Open(), tabledescription.Spec())
		if err != nil {
			t.Fatal(err)
		}
		return tabledescription.New(s)
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	descriptiontest.Run(t, func(t *testing.T) description.Store {
		return tabledescription.New(servertest.InPostgreSQL(t, url, tabledescription.Spec())())
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		descriptiontest.Run(t, func(t *testing.T) description.Store {
			return tabledescription.New(servertest.InRedis(t, client, tabledescription.Spec())())
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
