package sqlitewindow

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

const (
	columns = "w.revision, w.batch, w.state, w.records, w.bytes, w.expect, w.lost, w.opened, w.closed, w.why, w.line, w.epoch, w.due, w.owner, w.handed, w.tries, w.replays, w.failed, w.kind, w.cause"
	entries = "SELECT " + columns + " FROM window_batch w "
)

// stateNo is a state as its column holds it.
func stateNo(s window.State) int { return slices.Index(window.States(), s) }

// each calls row for every row of a query.
func each(tx *sqlitedb.Tx, query string, args []any, row func(*sql.Rows) error) error {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scan reads a window's columns, and further selected ones into more.
func scan(rows interface{ Scan(...any) error }, more ...any) (*entry.Entry, error) {
	e := new(entry.Entry)
	var state, kind int
	var opened, closed, due, failed int64
	var batch, owner, cause []byte
	var why string
	into := []any{&e.Revision, &batch, &state, &e.Records, &e.Bytes, &e.Expect, &e.Lost, &opened, &closed, &why, &e.Line, &e.Epoch, &due,
		&owner, &e.Handed, &e.Tries, &e.Replays, &failed, &kind, &cause}
	if err := rows.Scan(append(into, more...)...); err != nil {
		return nil, err
	}
	if state < 0 || state >= len(window.States()) {
		return nil, fmt.Errorf("read window %d: there is no state %d", e.Revision, state)
	}
	e.Batch, e.Owner, e.Cause, e.Why = string(batch), string(owner), string(cause), window.Why(why)
	e.ID, e.State, e.Kind = window.ID(e.Batch, e.Revision), window.States()[state], tidemill.Kind(kind)
	e.Opened, e.Closed, e.Due, e.Failed = wire.Instant(opened), wire.Instant(closed), wire.Instant(due), wire.Instant(failed)
	return e, nil
}

// find reads a window; nil: none.
func find(tx *sqlitedb.Tx, revision uint64) (*entry.Entry, error) {
	e, err := scan(tx.QueryRow(entries+"WHERE w.revision=?", revision))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read window %d: %w", revision, err)
	}
	return e, nil
}

// list reads windows.
func list(tx *sqlitedb.Tx, where string, args ...any) (es []*entry.Entry, err error) {
	err = each(tx, entries+where, args, func(rows *sql.Rows) error {
		e, err := scan(rows)
		es = append(es, e)
		return err
	})
	return es, err
}

// write writes the fields of a window that change after it is closed.
func write(tx *sqlitedb.Tx, e *entry.Entry) error {
	_, err := tx.Exec(`UPDATE window_batch SET state=?, records=?, lost=?, closed=?, why=?, line=?, epoch=?, due=?, owner=?, handed=?, tries=?, replays=?,
		failed=?, kind=?, cause=? WHERE revision=?`, stateNo(e.State), e.Records, e.Lost, wire.Millis(e.Closed), string(e.Why), e.Line, e.Epoch, wire.Millis(e.Due),
		[]byte(e.Owner), e.Handed, e.Tries, e.Replays, wire.Millis(e.Failed), uint8(e.Kind), []byte(e.Cause), e.Revision)
	if err != nil {
		return fmt.Errorf("write window %q: %w", e.ID, err)
	}
	return nil
}

// inline is how many records are deleted with their window; more are left to Sweep.
const inline = 500

// remove deletes a window with its records.
func remove(tx *sqlitedb.Tx, e *entry.Entry) error {
	if _, err := tx.Exec("DELETE FROM window_batch WHERE revision=?", e.Revision); err != nil {
		return fmt.Errorf("delete window %q: %w", e.ID, err)
	}
	query := "DELETE FROM window_record WHERE revision=?"
	if e.Records > inline {
		query = "INSERT INTO window_trash VALUES(?)"
	}
	if _, err := tx.Exec(query, e.Revision); err != nil {
		return fmt.Errorf("delete the records of window %q: %w", e.ID, err)
	}
	return nil
}

// change is what a transaction changes in the books and the counts.
type change struct {
	accepted int64
	row      tidemill.Count
	lost     int64
	windows  [4]int64 // by state
	records  [4]int64
}

// count adds a window to its state's count, or removes it.
func (c *change) count(e *entry.Entry, sign int64) {
	c.windows[stateNo(e.State)] += sign
	c.records[stateNo(e.State)] += sign * e.Records
}

// gone books a window without records as dead.
func (c *change) gone(tx *sqlitedb.Tx, e *entry.Entry) error {
	c.count(e, -1)
	c.row.Dead += uint64(e.Records)
	c.lost += e.Records - e.Lost
	return remove(tx, e)
}

func (c *change) write(tx *sqlitedb.Tx) error {
	if *c == (change{}) {
		return nil
	}
	_, err := tx.Exec(`UPDATE window_books SET accepted=accepted+?, delivered=delivered+?, skipped=skipped+?, dead=dead+?, lost=lost+?,
		windows0=windows0+?, records0=records0+?, windows1=windows1+?, records1=records1+?, windows2=windows2+?, records2=records2+?, windows3=windows3+?, records3=records3+?`,
		c.accepted, c.row.Delivered, c.row.Skipped, c.row.Dead, c.lost,
		c.windows[0], c.records[0], c.windows[1], c.records[1], c.windows[2], c.records[2], c.windows[3], c.records[3])
	if err != nil {
		return fmt.Errorf("write the books of windows: %w", err)
	}
	return nil
}

// places takes n places in lines, and returns the first of them.
func places(tx *sqlitedb.Tx, n int) (uint64, error) {
	var last uint64
	if err := tx.QueryRow("UPDATE window_books SET line=line+? RETURNING line", n).Scan(&last); err != nil {
		return 0, fmt.Errorf("take places in a line: %w", err)
	}
	return last - uint64(n) + 1, nil
}
