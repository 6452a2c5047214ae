package sqlitewindow

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// cursor is where a reading goes on: after which key, and how many were read before.
type cursor struct {
	after []byte
	read  int64
}

func (c cursor) String() string {
	return strconv.FormatInt(c.read, 10) + ":" + base64.RawURLEncoding.EncodeToString(c.after)
}

func parseCursor(from string) (c cursor, err error) {
	if from == "" {
		return cursor{after: []byte{}}, nil
	}
	n, key, ok := strings.Cut(from, ":")
	c.read, err = strconv.ParseInt(n, 10, 64)
	if c.after, _ = base64.RawURLEncoding.DecodeString(key); !ok || err != nil || c.read <= 0 || len(c.after) == 0 {
		return c, entry.BadCursor(from)
	}
	return c, nil
}

// Page implements window.Store. It counts records that are missing on the last page at
// once.
func (s *Store) Page(ctx context.Context, m tidemill.Mark, from string, into []window.Record) (p window.Page, err error) {
	var e *entry.Entry
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		var err error
		if e, err = find(tx, m.Lo); err != nil {
			return err
		}
		if e == nil || m == (tidemill.Mark{}) || !e.Holds(m) {
			return entry.Stale(m)
		}
		p, err = read(tx, e, from, into)
		return err
	})
	if err == nil && int64(p.Lost) > e.Lost {
		err = s.noteLost(ctx, m, int64(p.Lost))
	}
	if err != nil {
		return window.Page{}, err
	}
	return p, nil
}

// noteLost counts records as lost, once.
func (s *Store) noteLost(ctx context.Context, m tidemill.Mark, lost int64) error {
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		e, err := find(tx, m.Lo)
		if err != nil {
			return err
		}
		if e == nil || !e.Holds(m) {
			return entry.Stale(m)
		}
		if lost <= e.Lost {
			return nil
		}
		c := change{lost: lost - e.Lost}
		e.Lost = lost
		if err := write(tx, e); err != nil {
			return err
		}
		return c.write(tx)
	})
	if err != nil {
		return fmt.Errorf("count %d lost records: %w", lost, err)
	}
	return nil
}

// Peek implements window.Inspector.
func (s *Store) Peek(ctx context.Context, id, from string, into []window.Record) (p window.Page, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		e, err := byID(tx, id)
		if err != nil {
			return err
		}
		if e == nil {
			return window.NotFound(id)
		}
		p, err = read(tx, e, from, into)
		return err
	})
	if err != nil {
		return window.Page{}, err
	}
	return p, nil
}

const pageSQL = "SELECT key, body, sum FROM window_record WHERE revision=? AND key>? ORDER BY key LIMIT ?"

// read reads a page.
func read(tx *sqlitedb.Tx, e *entry.Entry, from string, into []window.Record) (p window.Page, err error) {
	if len(into) == 0 {
		return p, entry.NoRoom()
	}
	c, err := parseCursor(from)
	if err != nil {
		return p, err
	}
	size, more := 0, false
	rows, err := tx.Query(pageSQL, e.Revision, c.after, len(into)+1)
	if err != nil {
		return p, fmt.Errorf("read records of window %q: %w", e.ID, err)
	}
	defer func() { _ = rows.Close() }()
	var key, body sql.RawBytes
	for rows.Next() {
		if p.N == len(into) || size >= window.PageBytes {
			more = true
			break
		}
		var stored int64
		if err := rows.Scan(&key, &body, &stored); err != nil {
			return p, fmt.Errorf("read a record of window %q: %w", e.ID, err)
		}
		r := &into[p.N]
		*r = window.Record{Batch: e.Batch, Body: bytes.Clone(body)}
		if !entry.ReadKey(key, r) {
			r.ID, r.Damaged = string(key), window.Mixed
		}
		if entry.Sum(key, body) != uint64(stored) {
			r.Damaged = window.Mixed
		}
		c.after = append(c.after[:0], key...)
		c.read++
		p.N++
		size += len(body)
	}
	if err := rows.Err(); err != nil {
		return p, fmt.Errorf("read records of window %q: %w", e.ID, err)
	}
	switch {
	case more:
		p.Next = c.String()
	case e.State != window.Active:
		p.Lost = int(max(e.Records-c.read, 0))
	}
	return p, nil
}
