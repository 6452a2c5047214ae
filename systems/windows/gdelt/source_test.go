package gdelt_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
)

// carried hands a source's rows out as the bytes that the test put into their last column: rows
// can only be JSON, and the contract wants any bytes.
type carried struct {
	*gdelt.Source
	t *testing.T
}

func (c carried) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n, err := c.Source.Receive(ctx, into)
	for _, m := range into[:n] {
		var row struct{ SourceURL *string }
		if err := json.Unmarshal(m.Payload, &row); err != nil {
			c.t.Errorf("row %s is no JSON: %v", m.ID, err)
		}
		if m.Payload = m.Payload[:0]; row.SourceURL != nil {
			if m.Payload, err = base64.StdEncoding.DecodeString(*row.SourceURL); err != nil {
				c.t.Errorf("row %s: %v", m.ID, err)
			}
		}
	}
	return n, err
}

func testSource(t *testing.T, open func(t *testing.T) (files progress.Store, kill func() progress.Store), packed bool) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
		dir := t.TempDir()
		files, kill := open(t)
		dead := letters(t)
		var now *gdelt.Source
		made := 0
		return sourcetest.Harness{
			Accept: func(ms ...*tidemill.Message) {
				var rows bytes.Buffer
				for i, m := range ms {
					fmt.Fprintf(&rows, "%d%s%s\n", 1000+i, strings.Repeat("\t", 60), base64.StdEncoding.EncodeToString(m.Payload))
				}
				made++
				name := fmt.Sprintf("%014d.export.CSV", made)
				content := rows.Bytes()
				if packed {
					name, content = name+".zip", gdelttest.Zip(name, content)
				}
				if err := gdelttest.Put(dir, name, content); err != nil {
					t.Fatal(err)
				}
				if err := now.Look(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			Open: func() tidemill.Source {
				if now != nil { // one at a time has the files
					return carried{now, t}
				}
				s, err := gdelt.NewFolder(dir, files, dead, gdelt.Options{Quiet: -1, Limits: gdelt.Limits{Line: 4 << 20}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				now = s
				return carried{s, t}
			},
			Kill:  func() { files, now = kill(), nil },
			Alone: true,
			Live:  true, // an unsettled row comes again only after a restart: see TestBooksBalance
		}
	})
}

func TestSourceOnMemory(t *testing.T) {
	testSource(t, func(*testing.T) (progress.Store, func() progress.Store) {
		s := tableprogress.Memory(tableprogress.Options{})
		return s, func() progress.Store { return s }
	}, false)
}

func TestSourceOnSQLite(t *testing.T) {
	testSource(t, func(t *testing.T) (progress.Store, func() progress.Store) {
		path := filepath.Join(t.TempDir(), "t.db")
		var db *sqlitedb.DB
		t.Cleanup(func() { _ = db.Close() })
		open := func() progress.Store {
			var err error
			if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{}); err != nil {
				t.Fatal(err)
			}
			known, err := sqlitetable.New(t.Context(), db, tableprogress.Spec())
			if err != nil {
				t.Fatal(err)
			}
			s, err := tableprogress.New(known, "in", tableprogress.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		return open(), func() progress.Store {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			return open()
		}
	}, true)
}
