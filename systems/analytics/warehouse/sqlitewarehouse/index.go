package sqlitewarehouse

import (
	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/rowindex"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// indexTables are those of the index of events.
const indexTables = "warehouse_list"

// kind is what a key of the index is of. It is written into the file.
type kind byte

const (
	ofProject  kind = 'p'
	ofName     kind = 'n'
	ofDistinct kind = 'd'
	ofPerson   kind = 'w' // that it had when it was stored
)

// key is the key of what is of that kind. Different ones may have the same.
func key[T string | []byte](k kind, project []byte, of T) uint64 {
	var short [128]byte
	b := append(short[:0], byte(k))
	b = append(append(b, project...), of...)
	return xxhash.Sum64(b)
}

// rowOf is what the index has of an event.
func rowOf(id, at int64, project []byte, name, distinct string, person []byte) rowindex.Row {
	return rowindex.Row{ID: id, At: at, Keys: [rowindex.Keys]uint64{
		key(ofProject, project, ""), key(ofName, project, name), key(ofDistinct, project, distinct), key(ofPerson, project, person)}}
}

// rows are what the index has of the events that were written.
func (b *batch) rows() []rowindex.Row {
	rows := make([]rowindex.Row, len(b.entries))
	for i := range rows {
		a := b.args[i*rowArgs:]
		rows[i] = rowOf(b.entries[i].Pos, a[6].(int64), a[0].([]byte), a[3].(string), a[5].(string), a[2].([]byte))
	}
	return rows
}

// readRows reads events for the index.
func readRows(tx *sqlitedb.Tx, after int64) (all []rowindex.Row, upto int64, err error) {
	rows, err := tx.Query("SELECT id, timestamp, project, name, distinct_id, person FROM warehouse_event WHERE id > ? ORDER BY id LIMIT ?", after, pageSpan)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for upto = after; rows.Next(); {
		var at int64
		var project, person []byte
		var name, distinct string
		if err := rows.Scan(&upto, &at, &project, &name, &distinct, &person); err != nil {
			return nil, 0, err
		}
		all = append(all, rowOf(upto, at, project, name, distinct, person))
	}
	return all, upto, rows.Err()
}

// overridden are the keys of the distinct ids whose events belong to a person now, whatever person
// they had, up to one more than mostOverridden.
func overridden(tx *sqlitedb.Tx, project, person uuid.UUID) (keys []uint64, err error) {
	rows, err := tx.Query("SELECT distinct_id FROM warehouse_override WHERE project = ? AND person = ? LIMIT ?", project[:], person[:], mostOverridden+1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var distinct string
		if err := rows.Scan(&distinct); err != nil {
			return nil, err
		}
		keys = append(keys, key(ofDistinct, project[:], distinct))
	}
	return keys, rows.Err()
}
