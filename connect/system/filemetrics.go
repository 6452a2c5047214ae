package system

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// newDatabaseMetrics shows what the embedded database's writer does: how many calls share
// a commit, and whether it is its work or the disk that takes the time.
func newDatabaseMetrics(r prometheus.Registerer, db *sqlitedb.DB) {
	counter := func(name, help string, read func(sqlitedb.Stats) float64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return read(db.Stats()) }))
	}
	counter("tidemill_sqlite_commits_total", "Transactions committed.", func(s sqlitedb.Stats) float64 { return float64(s.Groups) })
	counter("tidemill_sqlite_calls_total", "Changes that were committed: many share a transaction.", func(s sqlitedb.Stats) float64 { return float64(s.Calls) })
	counter("tidemill_sqlite_working_seconds_total", "Time the writer spent on changes.", func(s sqlitedb.Stats) float64 { return s.Working.Seconds() })
	counter("tidemill_sqlite_commit_seconds_total", "Time the writer spent committing: log and disk.", func(s sqlitedb.Stats) float64 { return s.Commits.Seconds() })
	counter("tidemill_sqlite_log_restarts_total", "Times the log was folded back and begun anew.", func(s sqlitedb.Stats) float64 { return float64(s.Restarts) })
}

// newFolderMetrics shows how much room the data folder's disk has.
func newFolderMetrics(r prometheus.Registerer, folder string) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tidemill_data_free_bytes", Help: "Room on the disk of the data folder; -1: not known."}, func() float64 {
		free, err := FreeSpace(folder)
		if err != nil {
			return -1
		}
		return float64(free)
	}))
}
