package gdelt

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/tidemill/tidemill/systems/windows/record"
)

// Limits of a file; zero values mean the defaults.
type Limits struct {
	Line int   // bytes of a line; 0: 1 MiB
	File int64 // bytes of a file, unpacked; 0: 4 GiB
	Zip  int64 // bytes of a packed file; 0: 1 GiB
}

func (l Limits) withDefaults() Limits {
	if l.Line == 0 {
		l.Line = 1 << 20
	}
	if l.File == 0 {
		l.File = 4 << 30
	}
	if l.Zip == 0 {
		l.Zip = 1 << 30
	}
	return l
}

// Damage is why a whole file cannot be used. It does not pass with time.
type Damage struct{ Why string }

func (d *Damage) Error() string { return d.Why }

func damaged(format string, args ...any) error { return &Damage{fmt.Sprintf(format, args...)} }

// Reader reads the rows of one file. It is not safe for concurrent use.
type Reader struct {
	kind   record.Kind
	in     *bufio.Reader
	left   int64 // bytes that may follow
	limits Limits
	long   []byte // a line longer than the buffer of in
	row    []byte // the line of the row; valid until the next row
	packed bool   // the unpacked bytes are complete: the zip has a checksum
	cut    bool   // the line is the last, and has no line end

	line, number, idless uint64
	id                   int64
}

// NewReader reads the unpacked bytes of a file. At their end Next returns io.EOF.
func NewReader(kind record.Kind, in io.Reader, l Limits) *Reader {
	l = l.withDefaults()
	return &Reader{kind: kind, in: bufio.NewReaderSize(in, 64<<10), left: l.File, limits: l}
}

// Next goes to the next row that has an id. It skips empty lines, and counts rows without an
// id. After the last row it returns io.EOF. A *Damage says what is wrong with the file, such as
// a last line with neither an end nor all its columns: its id may be cut. The row is valid
// until Next is called again.
func (r *Reader) Next() error {
	for {
		line, err := r.next()
		if err != nil {
			return err
		}
		r.line++
		if r.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(trim(line)) == 0 {
			continue
		}
		first, _, _ := bytes.Cut(line, tab)
		id, ok := integer(trim(first))
		if !ok {
			r.idless++
			continue
		}
		if r.cut && !r.packed && bytes.Count(line, tab)+1 < r.kind.Fields() {
			return damaged("it ends in the middle of line %d", r.line)
		}
		r.row, r.id = line, id
		r.number++
		return nil
	}
}

var tab = []byte{'\t'}

// next returns the next line without its end.
func (r *Reader) next() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = append(r.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) && len(r.long) <= r.limits.Line {
			line, err = r.in.ReadSlice('\n')
			r.long = append(r.long, line...)
		}
		line = r.long
	}
	r.left -= int64(len(line))
	switch {
	case r.left < 0:
		return nil, damaged("it has more than %d bytes when unpacked", r.limits.File)
	case len(line) > r.limits.Line:
		return nil, damaged("line %d has more than %d bytes", r.line+1, r.limits.Line)
	case err == nil:
		return line[:len(line)-1], nil
	case errors.Is(err, io.EOF) && len(line) > 0:
		r.cut = true
		return line, nil
	}
	return nil, err
}

// Number is the row's number among those with an id, from 0.
func (r *Reader) Number() uint64 { return r.number - 1 }

// Line is the row's line in the file, from 1.
func (r *Reader) Line() uint64 { return r.line }

// ID is the row's globalEventId.
func (r *Reader) ID() int64 { return r.id }

// Rows is how many rows with an id were read so far.
func (r *Reader) Rows() uint64 { return r.number }

// Idless is how many rows without an id were read so far.
func (r *Reader) Idless() uint64 { return r.idless }

// AppendJSON appends the row as one JSON object with all names of its kind. Missing columns are
// null. Columns beyond the last value are left out.
func (r *Reader) AppendJSON(dst []byte) []byte {
	start, rest := len(dst), r.row
	for i := range r.kind.Fields() {
		var cell []byte
		cell, rest, _ = bytes.Cut(rest, tab)
		f := record.Field(i)
		dst = append(dst, ',', '"')
		dst = append(dst, r.kind.Name(f)...)
		dst = append(dst, '"', ':')
		dst = appendCell(dst, r.kind.Type(f), trim(cell))
	}
	dst[start] = '{' // where the first comma was
	return append(dst, '}')
}
