package postgrestable

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/state/table"
)

// TestACallersStatementsComeAfterThoseOfTheTable holds that each way to use the transaction sees
// what the table has written before, though the table sends it late.
func TestACallersStatementsComeAfterThoseOfTheTable(t *testing.T) {
	s := open(t)
	const count = `SELECT count(*) FROM "tidemill_job"`
	ways := map[string]func(ctx context.Context, raw pgx.Tx) (n int, err error){
		"Query": func(ctx context.Context, raw pgx.Tx) (n int, err error) {
			rows, err := raw.Query(ctx, count)
			if err != nil {
				return 0, err
			}
			return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		},
		"QueryRow": func(ctx context.Context, raw pgx.Tx) (n int, err error) { return n, raw.QueryRow(ctx, count).Scan(&n) },
		"Exec": func(ctx context.Context, raw pgx.Tx) (int, error) {
			tag, err := raw.Exec(ctx, `SELECT FROM "tidemill_job"`)
			return int(tag.RowsAffected()), err
		},
		"SendBatch": func(ctx context.Context, raw pgx.Tx) (n int, err error) {
			b := &pgx.Batch{}
			b.Queue(count).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
			return n, raw.SendBatch(ctx, b).Close()
		},
		"Begin": func(ctx context.Context, raw pgx.Tx) (n int, err error) {
			return n, pgx.BeginFunc(ctx, raw, func(savepoint pgx.Tx) error { return savepoint.QueryRow(ctx, count).Scan(&n) })
		},
		"Prepare": func(ctx context.Context, raw pgx.Tx) (n int, err error) {
			if _, err := raw.Prepare(ctx, "counting", count); err != nil {
				return 0, err
			}
			return n, raw.QueryRow(ctx, "counting").Scan(&n)
		},
		"CopyFrom": func(ctx context.Context, raw pgx.Tx) (n int, err error) {
			_, err = raw.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}}))
			return 1, err
		},
		"Conn": func(ctx context.Context, raw pgx.Tx) (n int, err error) {
			return n, raw.Conn().QueryRow(ctx, count).Scan(&n)
		},
		"LargeObjects": func(ctx context.Context, raw pgx.Tx) (n int, err error) {
			objects := raw.LargeObjects()
			_, err = objects.Create(ctx, 0)
			return 1, err
		},
	}
	if _, err := s.db.Exec(t.Context(), "CREATE TABLE copied(n integer)"); err != nil {
		t.Fatal(err)
	}
	for name, way := range ways {
		for _, end := range []error{nil, errors.New("do has failed")} {
			err := s.Update(t.Context(), func(tx table.Tx[record], raw pgx.Tx) error {
				if err := tx.Put([]*record{{Key: "k"}}); err != nil {
					return err
				}
				if n, err := way(t.Context(), raw); n != 1 || err != nil {
					t.Errorf("%s: %d records, %v; want the one that was put", name, n, err)
				}
				return end
			})
			if !errors.Is(err, end) {
				t.Errorf("%s: %v, want %v", name, err, end)
			}
			if n, err := s.Count(t.Context(), 9); (n == 1) != (end == nil) || err != nil {
				t.Errorf("%s, where do returns %v: %d records are kept, %v", name, end, n, err)
			}
			if err := s.Update(t.Context(), func(tx table.Tx[record], _ pgx.Tx) error { return tx.Delete([]string{"k"}) }); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestATransactionWithAFailedStatementIsNotCommitted holds that an Update returns an error where a
// statement failed, though do has not said so: PostgreSQL rolls it back.
func TestATransactionWithAFailedStatementIsNotCommitted(t *testing.T) {
	s := open(t)
	put := func(tx table.Tx[record]) error { return tx.Put([]*record{{Key: "k"}}) }
	for name, do := range map[string]func(tx table.Tx[record], raw pgx.Tx) error{
		"hidden by do": func(tx table.Tx[record], raw pgx.Tx) error {
			_, _ = raw.Exec(t.Context(), "SELECT 1/0")
			return nil
		},
		"hidden before what the table writes": func(tx table.Tx[record], raw pgx.Tx) error {
			_, _ = raw.Exec(t.Context(), "SELECT 1/0")
			return put(tx)
		},
		"of what the table writes": func(tx table.Tx[record], raw pgx.Tx) error {
			_, err := raw.Exec(t.Context(), `ALTER TABLE "tidemill_job" ADD CHECK (key <> 'k')`)
			return errors.Join(err, put(tx))
		},
		"of a commit and rollback by do": func(tx table.Tx[record], raw pgx.Tx) error {
			return errors.Join(put(tx), raw.Commit(t.Context()), raw.Rollback(t.Context()))
		},
	} {
		if err := s.Update(t.Context(), do); err == nil {
			t.Errorf("%s: no error", name)
		}
		if n, err := s.Count(t.Context(), 9); n != 0 || err != nil {
			t.Errorf("%s: %d records are kept, %v", name, n, err)
		}
	}
	// The connections are still good, and nothing of it is left in them.
	for i := range 3 {
		if err := s.Update(t.Context(), func(tx table.Tx[record], _ pgx.Tx) error { return tx.Put([]*record{{Key: fmt.Sprint(i)}}) }); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Count(t.Context(), 9); n != 3 || err != nil {
		t.Errorf("%d records, %v; want 3", n, err)
	}
}
