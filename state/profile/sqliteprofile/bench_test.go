package sqliteprofile_test

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/profiletest"
	"github.com/tidemill/tidemill/state/profile/sqliteprofile"
)

func Benchmark(b *testing.B) {
	profiletest.Bench(b, func(b *testing.B) profile.Store {
		db, err := sqlitedb.Open(b.Context(), filepath.Join(b.TempDir(), "b.db"), sqlitedb.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		s, err := sqliteprofile.New(b.Context(), db, profile.Options{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	})
}
