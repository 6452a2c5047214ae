package sqliteproject_test

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/projecttest"
	"github.com/tidemill/tidemill/state/project/sqliteproject"
)

func TestConformance(t *testing.T) {
	projecttest.Run(t, func(t *testing.T) projecttest.Harness {
		path := filepath.Join(t.TempDir(), "t.db")
		var db *sqlitedb.DB
		closeDB := func() {
			if db != nil {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		t.Cleanup(func() { closeDB() })
		open := func() project.Projects {
			closeDB()
			var err error
			if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{}); err != nil {
				t.Fatal(err)
			}
			s, err := sqliteproject.New(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		return projecttest.Harness{Projects: open(), Reopen: open}
	})
}
