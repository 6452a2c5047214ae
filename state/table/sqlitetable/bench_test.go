package sqlitetable_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

// BenchmarkVerbs measures each verb with 500 records in a transaction, of 300 bytes each, with one
// order, and with a counter and without.
func BenchmarkVerbs(b *testing.B) {
	const batch, kept = 500, 20_000
	for _, counted := range []bool{false, true} {
		db, err := sqlitedb.Open(b.Context(), filepath.Join(b.TempDir(), "b.db"), sqlitedb.Options{})
		if err != nil {
			b.Fatal(err)
		}
		spec := tabletest.Spec("t")
		spec.Orders, spec.Expires = spec.Orders[:1], ""
		if !counted {
			spec.Count = table.Counter[record]{}
		}
		s, err := sqlitetable.New(b.Context(), db, spec)
		if err != nil {
			b.Fatal(err)
		}
		at := time.Unix(1767225600, 0)
		rows := func(from int) (rows []*record, keys []string) {
			for i := from; i < from+batch; i++ {
				r := &record{Key: fmt.Sprintf("tenant/%08x-%d", uint32(i)*2654435761, i), Group: "tenant", State: uint8(i%3) + 1, At: at.Add(time.Duration(i/batch) * time.Millisecond),
					No: uint64(i), Body: make([]byte, 300)}
				rows, keys = append(rows, r), append(keys, r.Key)
			}
			return rows, keys
		}
		in := 0
		verbs := map[string]func(tx table.Tx[record]) error{
			"put": func(tx table.Tx[record]) error { new, _ := rows(in); in += batch; return tx.Put(new) },
			"put only": func(tx table.Tx[record]) error {
				old, _ := rows(in % kept / batch * batch)
				in += batch
				return tx.Put(old, "tries", "no", "flag", "until")
			},
			"get": func(tx table.Tx[record]) error {
				_, keys := rows(in % kept / batch * batch)
				in += batch
				_, err := tx.Get(keys)
				return err
			},
			"get only": func(tx table.Tx[record]) error {
				_, keys := rows(in % kept / batch * batch)
				in += batch
				_, err := tx.Get(keys, "state", "no")
				return err
			},
			"page": func(tx table.Tx[record]) error {
				in += batch
				_, err := tx.Page(table.Query[record]{By: "at", After: &record{At: at.Add(time.Duration(in%kept/batch/2) * time.Millisecond), Key: "u"}, Most: batch})
				return err
			},
		}
		for _, verb := range []string{"put", "put only", "get", "get only", "page"} {
			b.Run(fmt.Sprintf("%s/counted=%v", verb, counted), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Update(b.Context(), func(tx table.Tx[record], _ *sqlitedb.Tx) error { return verbs[verb](tx) }); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1000/float64(b.N)/batch, "µs/record")
			})
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
