package sqlitesearch

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// chunk is how many documents one write takes: about ten milliseconds of the writer.
const chunk = 100

// row is a document as it is written.
type row struct {
	at      search.Position
	version uint64
	body    string
	numbers []any
	words   []any // of each text, then the terms
}

// Index implements search.Indexer.
func (s *Store) Index(ctx context.Context, docs []search.Doc) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var out search.Outcome
	rows, of := map[string][]row{}, map[string][]int{}
	for i := range docs {
		d := &docs[i]
		t, err := s.table(d.Schema)
		if errors.Is(err, errSetup) {
			return err
		}
		var r row
		if err == nil {
			r, err = t.prepare(d)
		}
		if err != nil {
			out.Fail(i, err)
			continue
		}
		rows[d.Schema], of[d.Schema] = append(rows[d.Schema], r), append(of[d.Schema], i)
	}
	for _, name := range s.names {
		for from := 0; from < len(rows[name]); from += chunk {
			to := min(from+chunk, len(rows[name]))
			if err := s.write(ctx, name, rows[name][from:to]); err != nil {
				if ctx.Err() != nil {
					return err
				}
				for _, i := range of[name][from:to] {
					out.Fail(i, fmt.Errorf("index a document of %s: %w", name, err))
				}
			}
		}
	}
	return out.Err()
}

func (s *Store) write(ctx context.Context, schema string, rows []row) error {
	t, err := s.table(schema)
	if err != nil {
		return err
	}
	made := s.now().UnixMilli()
	return s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		day := ""
		for i := range rows {
			if rows[i].at.Day == day {
				continue
			}
			day = rows[i].at.Day
			if _, err := tx.Exec("INSERT INTO search_day(family, day, made, bytes) VALUES(?,?,?,0) ON CONFLICT DO NOTHING", schema, day, made); err != nil {
				return err
			}
		}
		grown, err := t.put(tx, rows)
		if err != nil {
			return err
		}
		return t.grow(tx, grown)
	})
}

// grow counts the bytes that days have more.
func (t *table) grow(tx *sqlitedb.Tx, grown map[string]int64) error {
	for day, by := range grown { // in any order: they are rows of their own
		if by == 0 {
			continue
		}
		if _, err := tx.Exec("UPDATE search_day SET bytes = bytes + ? WHERE family = ? AND day = ?", by, t.schema.Name, day); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the row of a document.
func (t *table) prepare(d *search.Doc) (row, error) {
	if err := d.Check(); err != nil {
		return row{}, err
	}
	values, err := t.schema.Read(d.Body)
	if err != nil {
		return row{}, err
	}
	return t.of(d, values), nil
}

func (t *table) of(d *search.Doc, values []search.Value) row {
	r := row{at: t.schema.Position(d, values), version: d.Version, body: string(d.Body)}
	if r.at.Tie == nil {
		r.at.Tie = []byte{}
	}
	for _, i := range t.numbers {
		switch v := values[i]; {
		case !v.Has:
			r.numbers = append(r.numbers, nil)
		case t.schema.Fields[i].Type == search.Double:
			r.numbers = append(r.numbers, v.Float)
		default:
			r.numbers = append(r.numbers, v.Int)
		}
	}
	for _, i := range t.texts {
		r.words = append(r.words, join(search.Words(values[i].Text)))
	}
	terms := []string{everything}
	for i := range t.schema.Fields {
		if term, ok := t.schema.Fields[i].Term(values[i], t.schema.Fields[i].Type == search.Text); ok {
			terms = append(terms, termWord(i, term))
		}
	}
	r.words = append(r.words, strings.Join(terms, " "))
	return r
}

// everything is a term that every document has.
const everything = "a"

// termWord writes a whole value as one word of the index: its field, and its bytes if they are
// few, else a hash of them.
func termWord(field int, value string) string {
	if len(value) <= 24 {
		return strconv.Itoa(field) + "x" + hex.EncodeToString([]byte(value))
	}
	sum := sha256.Sum256([]byte(value))
	return strconv.Itoa(field) + "h" + hex.EncodeToString(sum[:16])
}

// join writes words so that the index keeps each whole: it ends words at ASCII characters that
// are neither letters nor digits, so a few (3.14, don't) are written otherwise.
func join(words []string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && r != ' ' && !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z') {
			return 0xE000 + r
		}
		return r
	}, strings.Join(words, " "))
}

// Row numbers: the day of a document's time, then a number.
const (
	seqBits = 36
	seqMask = 1<<seqBits - 1
	lastDay = 1<<26 - 1
	dayMs   = 24 * 60 * 60 * 1000
	epoch   = 719_163 // days from the beginning of year 1 to 1970, plus one
)

// dayOf is the day of a time in milliseconds. The first and the last day include all beyond.
func dayOf(ms int64) int64 {
	d := ms / dayMs
	if ms%dayMs < 0 {
		d--
	}
	return min(max(d+epoch, 0), lastDay)
}

// begins is when a day begins.
func begins(day int64) int64 {
	switch {
	case day <= 0:
		return math.MinInt64
	case day > lastDay:
		return math.MaxInt64
	}
	return (day - epoch) * dayMs
}

// put writes rows. Each replaces the one that its day has under its id. It says how many bytes each day
// has more.
func (t *table) put(tx *sqlitedb.Tx, rows []row) (grown map[string]int64, err error) {
	last := map[int64]int64{} // row number by day
	grown = map[string]int64{}
	for i := range rows {
		r := &rows[i]
		var id, version int64
		err := tx.QueryRow(t.find, r.at.Day, r.at.ID).Scan(&id, &version)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return nil, err
		default:
			done, had, err := t.known(tx, r, id, uint64(version))
			if err != nil {
				return nil, err
			}
			if done {
				continue
			}
			grown[r.at.Day] -= int64(had)
		}
		if r.version == 0 {
			r.version = uint64(version) + 1
		}
		day := dayOf(r.at.Time)
		if last[day] == 0 {
			var top int64
			if err := tx.QueryRow(t.last, day<<seqBits, day<<seqBits|seqMask).Scan(&top); err != nil {
				return nil, err
			}
			last[day] = max(top, day<<seqBits)
		}
		last[day]++
		if err := t.insert(tx, last[day], r); err != nil {
			return nil, err
		}
		grown[r.at.Day] += int64(len(r.body))
	}
	return grown, nil
}

// known looks at the stored document. done: nothing more has to be written. Else the document, which
// had so many bytes, is removed.
func (t *table) known(tx *sqlitedb.Tx, r *row, id int64, version uint64) (done bool, had int, err error) {
	if r.version != 0 && r.version < version {
		return true, 0, nil
	}
	var body string
	if err := tx.QueryRow(t.body, id).Scan(&body); err != nil {
		return false, 0, err
	}
	if body != r.body {
		return false, len(body), t.remove(tx, id, true)
	}
	if r.version > version {
		_, err = tx.Exec(t.version, int64(r.version), id)
	}
	return true, 0, err
}

func (t *table) insert(tx *sqlitedb.Tx, id int64, r *row) error {
	args := append([]any{id, r.at.Day, r.at.ID, int64(r.version), r.at.Time, r.at.Tie}, r.numbers...)
	if _, err := tx.Exec(t.insertDoc, args...); err != nil {
		return err
	}
	if _, err := tx.Exec(t.insertBody, id, r.body); err != nil {
		return err
	}
	_, err := tx.Exec(t.insertWords, append([]any{id}, r.words...)...)
	return err
}

// remove removes a document; words false: the tables are going, and its words with them.
func (t *table) remove(tx *sqlitedb.Tx, id int64, words bool) error {
	if words {
		if _, err := tx.Exec(t.deleteWords, id); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(t.deleteBody, id); err != nil {
		return err
	}
	_, err := tx.Exec(t.deleteDoc, id)
	return err
}
