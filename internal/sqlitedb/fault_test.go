package sqlitedb

import (
	"context"
	"errors"
	"testing"
)

func TestATestCanLetStatementsFail(t *testing.T) {
	var now Fault
	d := open(t, Options{Fault: func(*Tx) Fault { return now }})
	if err := d.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec("CREATE TABLE fails(n INTEGER)"); return err }); err != nil {
		t.Fatal(err)
	}
	fails := map[string]func(tx *Tx) error{
		"exec": func(tx *Tx) error { _, err := tx.Exec("INSERT INTO fails VALUES(1)"); return err },
		"bulk": func(tx *Tx) error {
			_, err := tx.Bulk("INSERT INTO fails VALUES", "(?)", "", []any{1, 2})
			return err
		},
		"row": func(tx *Tx) error { var n int; return tx.QueryRow("SELECT count(*) FROM fails").Scan(&n) },
		"rows": func(tx *Tx) error {
			rows, err := tx.Query("SELECT 1")
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				t.Error("a row came all the same")
			}
			return rows.Err()
		},
	}
	for name, do := range fails {
		for _, now = range []Fault{Refused, Broken} {
			if err := d.Write(t.Context(), do); !errors.Is(err, ErrFault) && !errors.Is(err, context.Canceled) {
				t.Errorf("%s, fault %d: %v", name, now, err)
			}
		}
	}
	now = None
	var n int
	if err := d.Read(t.Context(), func(tx *Tx) error { return tx.QueryRow("SELECT count(*) FROM fails").Scan(&n) }); err != nil || n != 0 {
		t.Errorf("%d rows, %v; want none", n, err)
	}
}
