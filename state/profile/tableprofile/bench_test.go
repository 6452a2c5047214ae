package tableprofile_test

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/profiletest"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
)

func BenchmarkInMemory(b *testing.B) {
	profiletest.Bench(b, func(b *testing.B) profile.Store {
		s, err := tableprofile.Memory(profile.Options{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	})
}

func BenchmarkOnSQLite(b *testing.B) {
	profiletest.Bench(b, func(b *testing.B) profile.Store {
		db, err := sqlitedb.Open(b.Context(), filepath.Join(b.TempDir(), "b.db"), sqlitedb.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		return store(b, onSQLite(b, db), profile.Options{})
	})
}

func BenchmarkOnPostgres(b *testing.B) {
	testenv.Need(b)
	profiletest.Bench(b, func(b *testing.B) profile.Store {
		return store(b, onPostgres(b, connect(b, testenv.Postgres(b))), profile.Options{})
	})
}
