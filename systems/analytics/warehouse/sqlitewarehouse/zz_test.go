package sqlitewarehouse

import (
	"math/rand/v2"
	"slices"
	"testing"
	"strings"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

func BenchmarkZZ(b *testing.B) {
	db := open(b)
	_ = store(b, db, Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 3_000_000
	hs := make([]entry, n)
	for i := range hs {
		hs[i] = entry{rng.Uint64() >> 16, int64(i)}
	}
	slices.SortFunc(hs, byHash)
	for part := range slices.Chunk(hs, 100000) {
		if err := db.Write(b.Context(), func(tx *sqlitedb.Tx) error { return putKeys(tx, part) }); err != nil {
			b.Fatal(err)
		}
	}
	look := func(b *testing.B, sorted bool, query string) {
		for b.Loop() {
			l := make([]uint64, 1000)
			for i := range l {
				l[i] = rng.Uint64() >> 16
			}
			if sorted {
				slices.Sort(l)
			}
			// a commit between, as in life
			if err := db.Write(b.Context(), func(tx *sqlitedb.Tx) error { _, err := tx.Exec("UPDATE warehouse_index SET upto=upto+1"); return err }); err != nil {
				b.Fatal(err)
			}
			if err := db.Read(b.Context(), func(tx *sqlitedb.Tx) error {
				if query == "in" {
					args := make([]any, 1000)
					for i := range l {
						args[i] = int64(l[i])
					}
					rows, err := tx.Query("SELECT id FROM warehouse_key WHERE hash IN (?"+strings.Repeat(",?", 999)+")", args...)
					if err != nil {
						return err
					}
					for rows.Next() {
					}
					return rows.Close()
				}
				_, err := selectInts(tx, nil, query, l)
				return err
			}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/id")
	}
	q := "SELECT k.id FROM json_each(?) j JOIN warehouse_key k ON k.hash = j.value"
	for _, m := range []string{"0", "4000000000"} {
		for range 4 { // every reader
			db.Read(b.Context(), func(tx *sqlitedb.Tx) error { var v int64; return tx.QueryRow("PRAGMA mmap_size="+m).Scan(&v) })
		}
		b.Run(m+" json unsorted", func(b *testing.B) { look(b, false, q) })
		b.Run(m+" json sorted", func(b *testing.B) { look(b, true, q) })
		b.Run(m+" in sorted", func(b *testing.B) { look(b, true, "in") })
		b.Run(m+" json alone", func(b *testing.B) { look(b, true, "SELECT j.value FROM json_each(?) j WHERE j.value=0") })
	}
}
