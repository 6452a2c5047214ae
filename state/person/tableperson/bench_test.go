//go:build unix

package tableperson

import (
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/persontest"
)

var project = uuid.MustParse("33333333-3333-4333-8333-333333333333")

func BenchmarkInMemory(b *testing.B) {
	persontest.Bench(b, func(*testing.B) (person.Store, uuid.UUID) { return Memory(Options{}), project })
}

func BenchmarkInSQLite(b *testing.B) {
	persontest.Bench(b, func(b *testing.B) (person.Store, uuid.UUID) {
		db := must[*sqlitedb.DB](b)(sqlitedb.Open(b.Context(), filepath.Join(b.TempDir(), "t.db"), sqlitedb.Options{}))
		b.Cleanup(func() { _ = db.Close() })
		return onFile(b, db, Options{}), project
	})
}

func BenchmarkInPostgreSQL(b *testing.B) {
	testenv.Need(b)
	persontest.Bench(b, func(b *testing.B) (person.Store, uuid.UUID) {
		db := must[*postgresdb.DB](b)(postgresdb.Open(b.Context(), tidemill.NewSecret(testenv.Postgres(b)), postgresdb.Options{}))
		b.Cleanup(db.Close)
		return onPostgres(b, db), project
	})
}
