package clickhousehttp

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// maxText is the longest text that is read from a result: a longer one is a damaged answer.
const maxText = 256 << 20

// Rows reads a result row by row and value by value, in the order of the statement's
// columns, in bounded memory:
//
//	for rows.Next() {
//		id, name := rows.UUID(), rows.String()
//	}
//	err := rows.Err()
//
// The type of each value has to be the column's: convert in the statement. No column may be
// Nullable or LowCardinality (toString drops that). After an error all values are zero.
type Rows struct {
	caller, request context.Context // only to say why it ended
	conn            *Conn
	r               *bufio.Reader
	left            int64 // bytes that may still be read
	end             func()
	err             error
	b               [16]byte
}

func newRows(caller, request context.Context, c *Conn, body io.Reader, end func()) *Rows {
	return &Rows{caller: caller, request: request, conn: c, r: bufio.NewReaderSize(body, 32<<10), left: c.max, end: end}
}

// Next reports whether there is another row.
func (r *Rows) Next() bool {
	if r.err != nil {
		return false
	}
	_, err := r.r.Peek(1)
	if err != nil && !errors.Is(err, io.EOF) {
		r.fail(err)
	}
	return err == nil
}

// Err is why the rows ended; nil: all were read.
func (r *Rows) Err() error { return r.err }

// Close ends the reading; the rest is not read. It may be called twice.
func (r *Rows) Close() {
	if r.end != nil {
		r.end()
		r.end = nil
	}
}

// fail notes the first error. An exception in the answer explains it better.
func (r *Rows) fail(err error) {
	if r.err != nil {
		return
	}
	if errors.Is(err, errTooLong) {
		r.err = err
		return
	}
	rest, _ := r.r.Peek(r.r.Buffered())
	if e := r.conn.exception(rest); e != nil {
		r.err = e
		return
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	r.err = r.conn.lost(r.request, r.caller, err)
}

var errTooLong = errors.New("a result is longer than it may be")

func (r *Rows) take(n int) bool {
	if r.left -= int64(n); r.left < 0 {
		r.fail(tidemill.Fail(tidemill.Partner, "%w: %d bytes; ask for less", errTooLong, r.conn.max))
	}
	return r.err == nil
}

func (r *Rows) fixed(n int) []byte {
	if r.err != nil || !r.take(n) {
		clear(r.b[:n])
		return r.b[:n]
	}
	if _, err := io.ReadFull(r.r, r.b[:n]); err != nil {
		clear(r.b[:n])
		r.fail(err)
	}
	return r.b[:n]
}

// UInt8 reads a UInt8 or a Bool.
func (r *Rows) UInt8() uint8 { return r.fixed(1)[0] }

// UInt16 reads a UInt16.
func (r *Rows) UInt16() uint16 { return binary.LittleEndian.Uint16(r.fixed(2)) }

// UInt64 reads a UInt64.
func (r *Rows) UInt64() uint64 { return binary.LittleEndian.Uint64(r.fixed(8)) }

// Int64 reads an Int64, or a DateTime64 as its number of ticks.
func (r *Rows) Int64() int64 { return int64(r.UInt64()) }

// UUID reads a UUID.
func (r *Rows) UUID() (id uuid.UUID) {
	b := r.fixed(16)
	binary.BigEndian.PutUint64(id[:8], binary.LittleEndian.Uint64(b[:8]))
	binary.BigEndian.PutUint64(id[8:], binary.LittleEndian.Uint64(b[8:]))
	return id
}

// String reads a String.
func (r *Rows) String() string { return string(r.Bytes()) }

// Bytes reads a String into new memory; nil if it is empty.
func (r *Rows) Bytes() []byte {
	if r.err != nil {
		return nil
	}
	n, err := binary.ReadUvarint(r.r)
	switch {
	case err != nil:
		r.fail(err)
		return nil
	case n > maxText:
		r.fail(fmt.Errorf("a text of %d bytes cannot be", n))
		return nil
	case n == 0 || !r.take(int(n)):
		return nil
	}
	var b []byte
	for read := 0; read < int(n); { // memory grows only with bytes that came
		step := min(int(n)-read, max(read, 64<<10))
		b = append(b, make([]byte, step)...)
		if _, err := io.ReadFull(r.r, b[read:]); err != nil {
			r.fail(err)
			return nil
		}
		read += step
	}
	return b
}
