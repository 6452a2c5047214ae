package tableperson

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/table"
)

// Record is a distinct id: the person whose id is derived from it, or, once it has moved, which
// person it belongs to. It is never deleted, so that versions keep counting.
type Record struct {
	key      string // the derived person id
	project  []byte
	distinct string

	person  []byte // that it belongs to since it moved; empty: the derived one
	version uint64

	// The others are of a person, and zero once its distinct ids have moved to another.
	identified       bool
	created, updated uint64 // the bits of unix milliseconds
	properties       []byte // the values as one JSON object, for programs that read by SQL; empty: none
	registers        []byte // what rules.Registers stores
}

// The fields that are read of a distinct id, and of the person that it belongs to.
var (
	linkFields  = []string{"person", "version", "identified", "created", "updated", "registers"}
	ownerFields = []string{"project", "distinct_id", "person", "identified", "created", "updated", "registers"}
)

// The fields that are written: of a person whose properties are as they were, of another, and of a
// distinct id that moves.
var (
	headFields  = []string{"identified", "created", "updated"}
	wholeFields = []string{"identified", "created", "updated", "properties", "registers"}
	movedFields = []string{"person", "version", "identified", "created", "updated", "properties", "registers"}
)

// Spec is the table of distinct ids. Its views are for programs that read by SQL: person has the
// columns id, project, distinct_id (that the id is derived from), identified, created and updated
// (unix milliseconds) and properties (one JSON object); person_distinct_id has project,
// distinct_id, person and version. In PostgreSQL, distinct ids and properties are bytes, as not all
// are text there.
func Spec() table.Spec[Record] {
	type r = Record
	return table.Spec[r]{Name: "persons", Fields: []table.Field[r]{
		{Name: "key", At: func(r *r) any { return &r.key }},
		{Name: "project", At: func(r *r) any { return &r.project }},
		{Name: "distinct_id", At: func(r *r) any { return &r.distinct }},
		{Name: "person", At: func(r *r) any { return &r.person }},
		{Name: "version", At: func(r *r) any { return &r.version }},
		{Name: "identified", At: func(r *r) any { return &r.identified }},
		{Name: "created", At: func(r *r) any { return &r.created }},
		{Name: "updated", At: func(r *r) any { return &r.updated }},
		{Name: "properties", At: func(r *r) any { return &r.properties }},
		{Name: "registers", At: func(r *r) any { return &r.registers }},
	}, Views: []table.View{{Name: "person",
		SQLite: "SELECT key AS id, project, CAST(distinct_id AS TEXT) AS distinct_id, identified, created, updated," +
			" iif(properties = x'', '{}', CAST(properties AS TEXT)) AS properties FROM persons WHERE person = x''",
		Postgres: "SELECT encode(key, 'hex')::uuid AS id, encode(project, 'hex')::uuid AS project, distinct_id, identified, created, updated," +
			" properties FROM @tidemill_persons WHERE person = ''",
	}, {Name: "person_distinct_id",
		SQLite: "SELECT project, CAST(distinct_id AS TEXT) AS distinct_id, iif(person = x'', key, person) AS person, version FROM persons",
		Postgres: "SELECT encode(project, 'hex')::uuid AS project, distinct_id," +
			" encode(CASE WHEN person = '' THEN key ELSE person END, 'hex')::uuid AS person, version FROM @tidemill_persons",
	}}}
}

// Move says which person a distinct id belongs to that has moved, as its Record does: to find it
// among few others, and all that moved to a person.
type Move struct {
	key    string // of the record
	person []byte
}

// MoveSpec is the table of moves.
func MoveSpec() table.Spec[Move] {
	return table.Spec[Move]{Name: "persons_moved", Fields: []table.Field[Move]{
		{Name: "key", At: func(m *Move) any { return &m.key }},
		{Name: "person", At: func(m *Move) any { return &m.person }},
	}, Orders: []table.Order{{Name: "person", By: []string{"person"}}}}
}

// Entry is a line of a list. The first byte of its key says which:
//
//	k  failed merges, by their number
//	n  one entry: version is the last number that was given
//	o  overrides, by their number
type Entry struct {
	key      string
	project  []byte
	distinct string
	person   []byte
	version  uint64

	// The others are of a failed merge.
	other string
	event []byte
	at    uint64 // the bits of unix milliseconds
	force bool
}

// ListSpec is the table of lists.
func ListSpec() table.Spec[Entry] {
	type e = Entry
	return table.Spec[e]{Name: "persons_list", Fields: []table.Field[e]{
		{Name: "key", At: func(e *e) any { return &e.key }},
		{Name: "project", At: func(e *e) any { return &e.project }},
		{Name: "distinct_id", At: func(e *e) any { return &e.distinct }},
		{Name: "person", At: func(e *e) any { return &e.person }},
		{Name: "version", At: func(e *e) any { return &e.version }},
		{Name: "other", At: func(e *e) any { return &e.other }},
		{Name: "event", At: func(e *e) any { return &e.event }},
		{Name: "at", At: func(e *e) any { return &e.at }},
		{Name: "force", At: func(e *e) any { return &e.force }},
	}}
}

const numberKey = "n"

func numbered(list string, n uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(list), n))
}

func number(key string) uint64 { return binary.BigEndian.Uint64([]byte(key[1:])) }

// in are the conditions on entries of a list.
func in(list string) []table.Cond {
	return []table.Cond{{Field: "key", Op: ">=", Value: list}, {Field: "key", Op: "<", Value: string(list[0] + 1)}}
}

// uid reads an id as a field has it.
func uid(b []byte) (id uuid.UUID) {
	copy(id[:], b)
	return id
}

func refOf(project []byte, distinct string) person.Ref {
	return person.Ref{Project: uid(project), Distinct: distinct}
}

// numbers takes n numbers that follow each other, and returns the last. They grow with the commits
// of the transactions: it writes the entry that it reads.
func numbers(lists table.Tx[Entry], n int) (uint64, error) {
	found, err := lists.Get([]string{numberKey}, "version")
	if err != nil {
		return 0, err
	}
	e := found[numberKey]
	if e == nil {
		e = &Entry{key: numberKey}
	}
	e.version += uint64(n)
	return e.version, lists.Put([]*Entry{e})
}
