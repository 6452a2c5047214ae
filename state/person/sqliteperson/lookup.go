package sqliteperson

import (
	"database/sql"
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/person"
)

// lookup reads data of many distinct ids, many a statement.
type lookup struct {
	derived bool                // the statement knows derived ids too
	texts   [lookupSizes]string // for 1, 2, 4… ids: few texts to prepare
}

const lookupSizes = 9 // up to 256 ids a statement

// moved looks up the person of each distinct id that belongs to another than the derived
// one: index, person.
func moved() *lookup {
	return newLookup("SELECT k.column1, m.person FROM (VALUES ", "(%d,?,?)",
		") k CROSS JOIN person_moved m ON m.project=k.column2 AND m.distinct_id=k.column3")
}

// stored looks up each distinct id that has moved or has a person: index; person and
// version if it has moved; the columns of its person if one is stored.
func stored() *lookup {
	l := newLookup("SELECT k.column1, m.person, m.version, p.identified, p.created, p.updated, p.registers FROM (VALUES ", "(%d,?,?,?)",
		") k LEFT JOIN person_moved m ON m.project=k.column2 AND m.distinct_id=k.column3"+
			" LEFT JOIN person p ON p.id=coalesce(m.person,k.column4) WHERE p.id IS NOT NULL OR m.person IS NOT NULL")
	l.derived = true
	return l
}

func newLookup(head, row, tail string) *lookup {
	l := &lookup{}
	for i := range l.texts {
		b := []byte(head)
		for n := range 1 << i {
			if n > 0 {
				b = append(b, ',')
			}
			b = fmt.Appendf(b, row, n)
		}
		l.texts[i] = string(append(b, tail...))
	}
	return l
}

// each calls do for each of refs that is found. The first column of a row is the index of
// the distinct id in part.
func (l *lookup) each(tx *sqlitedb.Tx, refs []person.Ref, do func(part []person.Ref, row *sql.Rows) error) error {
	const most = 1 << (lookupSizes - 1)
	args := make([]any, 0, 3*min(len(refs), most))
	for len(refs) > 0 {
		part := refs[:min(len(refs), most)]
		refs = refs[len(part):]
		size := bits.Len(uint(len(part) - 1))
		args = args[:0]
		for i := range part {
			args = append(args, part[i].Project[:], key(part[i].Distinct))
			if l.derived {
				id := person.ID(part[i])
				args = append(args, id[:])
			}
		}
		for range 1<<size - len(part) { // the rest equals nothing
			args = append(args, nil, nil)
			if l.derived {
				args = append(args, nil)
			}
		}
		if err := l.part(tx, size, args, part, do); err != nil {
			return err
		}
	}
	return nil
}

func (l *lookup) part(tx *sqlitedb.Tx, size int, args []any, part []person.Ref, do func([]person.Ref, *sql.Rows) error) error {
	rows, err := tx.Query(l.texts[size], args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(part, rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// key is the stored form of a distinct id: see steps.
func key(distinct string) any {
	if utf8.ValidString(distinct) && !strings.Contains(distinct, "\x00") {
		return distinct
	}
	return []byte(distinct)
}
