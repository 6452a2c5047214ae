package tableaccess_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/access"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/table/servertest"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/view"
	"github.com/tidemill/tidemill/state/view/viewtest"
)

// people is a store of grants with their views.
type people interface {
	access.Store
	Views() view.Store
}

// conforms runs the cases of views, and those of views and the people who saved them.
func conforms(t *testing.T, open func(*testing.T) people) {
	viewtest.Run(t, func(t *testing.T) view.Store { return open(t).Views() })
	t.Run("whose views are not shared takes them along", func(t *testing.T) { takesAlong(t, open(t)) })
}

func takesAlong(t *testing.T, s people) {
	add := func(owner, name string, shared bool) {
		t.Helper()
		if _, err := s.Views().Add(t.Context(), view.View{Name: name, Address: "/console/", Owner: owner, Shared: shared, Made: time.UnixMilli(1)}); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(owner string, want ...string) {
		t.Helper()
		all, err := s.Views().List(t.Context(), owner)
		if err != nil || len(all) != len(want) {
			t.Errorf("%s sees %+v, %v, want %q", owner, all, err, want)
		}
		for i := range all {
			if i < len(want) && all[i].Name != want[i] {
				t.Errorf("%s sees %q, want %q", owner, all[i].Name, want[i])
			}
		}
	}
	for _, g := range []access.Grant{{Kind: access.User, ID: "ada", Name: "ada", Role: "viewer"}, {Kind: access.Token, ID: access.IDOf("s"), Name: "token:ci", Role: "viewer"}} {
		if err := s.Add(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		add(g.Name, "private", false)
		add("bob", "bob's "+g.Name, false)
	}
	add("ada", "shared", true)
	for kind, id := range map[access.Kind]string{access.User: "ada", access.Token: access.IDOf("s")} {
		if _, err := s.Remove(t.Context(), kind, id); err != nil {
			t.Fatal(err)
		}
	}
	sees("ada", "shared")
	sees("token:ci", "shared")
	if all, err := s.List(t.Context(), access.User, ""); err != nil || len(all) != 0 {
		t.Errorf("the users are %+v, %v", all, err)
	}
	if all, err := s.Views().List(t.Context(), "bob"); err != nil || len(all) != 3 {
		t.Errorf("bob sees %+v, %v", all, err)
	}
}

func TestViewsInMemory(t *testing.T) {
	conforms(t, func(*testing.T) people { return tableaccess.Memory() })
}

func TestViewsInSQLite(t *testing.T) {
	conforms(t, func(t *testing.T) people {
		s, err := sqlitetable.New(t.Context(), sqlitedbtest.NewFile(t, sqlitedb.Options{}).Open(), tableaccess.Spec())
		if err != nil {
			t.Fatal(err)
		}
		return tableaccess.New(s)
	})
}

func TestViewsInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	conforms(t, func(t *testing.T) people {
		return tableaccess.New(servertest.InPostgreSQL(t, url, tableaccess.Spec())())
	})
}

func TestViewsInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		conforms(t, func(t *testing.T) people {
			return tableaccess.New(servertest.InRedis(t, client, tableaccess.Spec())())
		})
	})
}
