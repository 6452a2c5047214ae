package postgresledger

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
)

// A plan that is made while the table is empty is kept while it grows: it must not go by
// the time of creation, through all entries, where a key is asked for.
func TestPlansAreRightBeforeTheTableIsKnown(t *testing.T) {
	testenv.Need(t)
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(testenv.Postgres(t)), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	l, err := New(t.Context(), db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{0, 1, 1000} {
		if rows > 0 {
			var es []*ledger.Entry
			for i := range rows {
				es = append(es, &ledger.Entry{Key: fmt.Sprint(rows, "/", i)})
			}
			if err := l.Begin(t.Context(), es, ledger.Begin{}); err != nil {
				t.Fatal(err)
			}
		}
		keys, numbers, states := make([][]byte, 100), make([]int64, 100), make([]int16, 100)
		for i := range keys {
			keys[i] = []byte(fmt.Sprint("new", i))
		}
		for _, q := range []struct {
			name, statement, index string
			args                   []any
		}{
			{"add", add, "pkey", []any{"", nil, 1000, keys, keys, keys, keys, keys, keys, numbers}},
			{"find", find, "pkey", []any{"", keys}},
			{"lock", lock, "pkey", []any{"", keys}},
			{"find ends", findEnds, "pkey", []any{"", keys}},
			{"lock ends", lockEnds, "pkey", []any{"", keys}},
			{"write", write, "pkey", []any{"", keys, numbers, states, keys, keys, nil}},
			{"drop", drop, "pkey", []any{"", []byte("a"), 1, nil}},
			{"remove", remove, "pkey", []any{"", keys}},
			{"lock what is over", lockOver, "pkey", []any{"", keys, time.Now()}},
			{"find what is over", findOver, "created", []any{"", 10, time.Now()}},
			{"list", list, "created", []any{"", time.UnixMilli(0), []byte("a"), time.Now(), []byte(""), []byte(""), 0, 100}},
		} {
			var plan strings.Builder
			if err := db.Do(t.Context(), func(ctx context.Context, c *pgx.Conn) error {
				lines, err := c.Query(ctx, "EXPLAIN "+q.statement, q.args...)
				return postgresdb.Each(lines, err, func(r pgx.Rows) error {
					var line string
					err := r.Scan(&line)
					fmt.Fprintln(&plan, line)
					return err
				})
			}); err != nil {
				t.Fatal(err)
			}
			for _, index := range []string{"pkey", "created"} {
				if index == "pkey" && index == q.index && !strings.Contains(plan.String(), "AND (key = ") {
					t.Errorf("%d rows, %s does not ask by key\n%s", rows, q.name, plan.String())
				}
				if got := strings.Contains(plan.String(), "tidemill_ledger_"+index); got != (index == q.index) {
					t.Errorf("%d rows, %s: uses index %s: %v, want only %s\n%s", rows, q.name, index, got, q.index, plan.String())
				}
			}
			if strings.Contains(plan.String(), "Seq Scan") {
				t.Errorf("%d rows, %s reads all\n%s", rows, q.name, plan.String())
			}
		}
	}
}
