package sqlitedb

import (
	"bytes"
	"path/filepath"
	"testing"
)

// TestABlobIsItsReaders: its bytes stay as they are while other rows are read, after the statement,
// and where the reader of another changes its own.
func TestABlobIsItsReaders(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const rows, length = 50, 3000
	if err := db.Migrate(t.Context(), "blobs", []string{"CREATE TABLE b(id INTEGER PRIMARY KEY, v BLOB)"}); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx *Tx) error {
		for i := range rows {
			if _, err := tx.Exec("INSERT INTO b VALUES(?,?)", i, bytes.Repeat([]byte{byte(i)}, length)); err != nil {
				return err
			}
		}
		_, err := tx.Exec("INSERT INTO b VALUES(1000, NULL), (1001, x'')")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var kept []Blob
	read := func(tx *Tx) error {
		all, err := tx.Query("SELECT v FROM b ORDER BY id")
		if err != nil {
			return err
		}
		defer func() { _ = all.Close() }()
		for all.Next() {
			var b Blob
			if err := all.Scan(&b); err != nil {
				return err
			}
			kept = append(kept, b)
		}
		return all.Err()
	}
	for range 2 { // the second changes none of the first
		if err := db.Read(t.Context(), read); err != nil {
			t.Fatal(err)
		}
		clear(kept[len(kept)-3]) // nor does its owner others
	}
	for i, b := range kept {
		want := bytes.Repeat([]byte{byte(i % (rows + 2))}, length)
		switch i % (rows + 2) {
		case rows - 1:
			clear(want)
		case rows, rows + 1:
			want = nil
		}
		if !bytes.Equal(b, want) || want == nil && b != nil {
			t.Errorf("row %d became %.10x…, want %.10x…", i, []byte(b), want)
		}
	}
	if err := db.Read(t.Context(), func(tx *Tx) error { return tx.QueryRow("SELECT 1").Scan(new(Blob)) }); err == nil {
		t.Error("a number is read as bytes")
	}
}
