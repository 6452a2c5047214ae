package analytics

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// rawParse is how many events one core can check as JSON and take apart, without anything else:
// an upper bound of ingest.
func rawParse(bodies [][]byte, d time.Duration) (perSecond float64) {
	start, n := time.Now(), 0
	for i := 0; time.Since(start) < d; i++ {
		dec := jsontext.NewDecoder(bytes.NewReader(bodies[i%len(bodies)]), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if _, err := dec.ReadValue(); err != nil {
			panic(err)
		}
		n += PerBody
	}
	return float64(n) / time.Since(start).Seconds()
}

// rawInsert is how many rows of an event's size the SQLite file accepts with one index by a
// random id, 1,000 a transaction: an upper bound of the warehouse alone.
func rawInsert(dir string, rows int) (perSecond float64, err error) {
	ctx := context.Background()
	db, err := sqlitedb.Open(ctx, filepath.Join(dir, "raw.db"), sqlitedb.Options{})
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	defer db.Close()
	if err := db.Migrate(ctx, "raw", []string{"CREATE TABLE raw(id INTEGER PRIMARY KEY, uuid BLOB, name TEXT, distinct_id TEXT, at INTEGER, body BLOB); CREATE UNIQUE INDEX raw_uuid ON raw(uuid)"}); err != nil {
		return 0, err
	}
	g := load.New(7, time.Now())
	body := appendEvent(nil, g)
	start := time.Now()
	for i := 0; i < rows; i += 1000 {
		args := make([]any, 0, 5000)
		for j := range 1000 {
			id := g.UUID()
			args = append(args, id[:], "action", fmt.Sprintf("user-%06d", j), int64(i+j), body)
		}
		if err := db.Write(ctx, func(tx *sqlitedb.Tx) error {
			_, err := tx.Bulk("INSERT INTO raw(uuid,name,distinct_id,at,body) VALUES ", "(?,?,?,?,?)", "", args)
			return err
		}); err != nil {
			return 0, err
		}
	}
	return float64(rows) / time.Since(start).Seconds(), nil
}
