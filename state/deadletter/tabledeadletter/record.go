package tabledeadletter

import (
	"crypto/sha256"
	"fmt"
	"math"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
	"github.com/tidemill/tidemill/state/table"
)

// Record is what the table has: a dead letter, the books of a pipeline, a group, or an owner.
type Record struct {
	deadletter.Record
	key     string
	state   uint8
	seq     uint64
	shard   int
	epoch   int
	damaged bool
	apart   bool   // the message is in a record of its own
	sum     uint64 // of the message, with its payload, row and original
	history []byte
	message []byte // all of it but its name and its payload
	books   books
	group   string // the key of its group, which may be one that does not exist: see outside; empty: it has none. Of an owner: see bySize
	owned   bool   // its owner counts it
	cause   string // of a group
	size    uint64 // of a group, or of an owner: its dead letters
}

// books are those of a pipeline in a table, where Pending is counted, and how many groups it has.
type books struct{ put, replayed, skipped, lost, groups uint64 }

// there is how many dead letters there are by the books.
func (b books) there() int { return int(b.put - b.replayed - b.skipped - b.lost) }

// What a record is: a dead letter in one of its states, or another.
const (
	held uint8 = iota
	replaying
	account // the books of a pipeline
	content // the message of a dead letter, apart from it
	grouped // a group of dead letters
	owner   // an owner of dead letters of a pipeline
)

// apartMin is how many bytes a message has that is kept apart: a change of a dead letter writes
// its whole record, in some databases.
const apartMin = 2 << 10

// Spec is the table of dead letters.
func Spec() table.Spec[Record] {
	type r = Record
	return table.Spec[r]{Name: "deadletter", Orders: []table.Order{{Name: "state", By: []string{"pipeline", "state", "seq"}}, {Name: "number", By: []string{"seq"}},
		{Name: "cause", By: []string{"grouped", "state", "seq"}}}, Fields: []table.Field[r]{
		{Name: "key", At: func(r *r) any { return &r.key }},
		{Name: "pipeline", At: func(r *r) any { return &r.Pipeline }},
		{Name: "state", At: func(r *r) any { return &r.state }},
		{Name: "seq", At: func(r *r) any { return &r.seq }},
		{Name: "tenant", At: func(r *r) any { return &r.Tenant }},
		{Name: "id", At: func(r *r) any { return &r.ID }},
		{Name: "shard", At: func(r *r) any { return &r.shard }},
		{Name: "hi", At: func(r *r) any { return &r.Mark.Hi }},
		{Name: "lo", At: func(r *r) any { return &r.Mark.Lo }},
		{Name: "kind", At: func(r *r) any { return (*uint8)(&r.Kind) }},
		{Name: "first", At: func(r *r) any { return &r.First }},
		{Name: "last", At: func(r *r) any { return &r.Last }},
		{Name: "deaths", At: func(r *r) any { return &r.Deaths }},
		{Name: "replays", At: func(r *r) any { return &r.Replays }},
		{Name: "damaged", At: func(r *r) any { return &r.damaged }},
		{Name: "asked", At: func(r *r) any { return &r.Asked }},
		{Name: "handed", At: func(r *r) any { return &r.Handed }},
		{Name: "burnt", At: func(r *r) any { return &r.Burnt }},
		{Name: "epoch", At: func(r *r) any { return &r.epoch }},
		{Name: "due", At: func(r *r) any { return &r.Due }},
		{Name: "until", At: func(r *r) any { return &r.Until }},
		{Name: "edited", At: func(r *r) any { return &r.Edited }},
		{Name: "apart", At: func(r *r) any { return &r.apart }},
		{Name: "sum", At: func(r *r) any { return &r.sum }},
		{Name: "put", At: func(r *r) any { return &r.books.put }},
		{Name: "replayed", At: func(r *r) any { return &r.books.replayed }},
		{Name: "skipped", At: func(r *r) any { return &r.books.skipped }},
		{Name: "lost", At: func(r *r) any { return &r.books.lost }},
		{Name: "history", At: func(r *r) any { return &r.history }},
		{Name: "message", At: func(r *r) any { return &r.message }},
		{Name: "payload", At: func(r *r) any { return &r.Payload }},
		{Name: "row", At: func(r *r) any { return &r.Row }},
		{Name: "original", At: func(r *r) any { return &r.Original }},
		{Name: "grouped", At: func(r *r) any { return &r.group }},
		{Name: "cause", At: func(r *r) any { return &r.cause }},
		{Name: "size", At: func(r *r) any { return &r.size }},
		{Name: "groups", At: func(r *r) any { return &r.books.groups }},
		{Name: "owned", At: func(r *r) any { return &r.owned }},
	}}
}

// Fields to read or to write, where not all are.
var (
	place = []string{"pipeline", "state", "seq"} // of its order
	lease = []string{"epoch", "handed", "until"}
	death = []string{"state", "kind", "last", "deaths", "replays", "damaged", "history", "due", "until", "grouped", "owned"}
	body  = []string{"message", "payload", "row", "original"}
	// shown are those of a dead letter without its replay.
	shown  = append([]string{"pipeline", "state", "seq", "tenant", "id", "shard", "hi", "lo", "kind", "first", "last", "replays", "damaged", "edited", "apart", "sum", "history"}, body...)
	counts = []string{"put", "replayed", "skipped", "lost", "groups"} // of books
)

// part writes a name so that no other begins with it: short ones as they are, long ones by their
// hash, as a key is short.
func part(b []byte, name string) []byte {
	if len(name) <= 127 {
		return wire.AppendString(b, name)
	}
	sum := sha256.Sum256([]byte(name))
	return append(append(b, math.MaxUint8), sum[:]...)
}

// prefix begins the keys of the dead letters of a message ID, one for each tenant.
func prefix(pipeline, id string) string { return string(part(part(nil, pipeline), id)) }

func keyOf(n deadletter.Name) string { return string(part([]byte(prefix(n.Pipeline, n.ID)), n.Tenant)) }

// The keys of books and of messages apart begin with what no name begins with.
const (
	ofBooks   = "\xfd"
	ofContent = "\xfe"
)

func booksKey(pipeline string) string { return string(part([]byte(ofBooks), pipeline)) }

func contentKey(key string) string { return ofContent + key }

// nameOf is the name under which the dead letter is kept.
func nameOf(l *tidemill.DeadLetter) deadletter.Name {
	return deadletter.Name{Pipeline: l.Pipeline, Tenant: l.Message.Tenant, ID: l.Message.ID}
}

// up rounds a time that must not come early: the table rounds down.
func up(t time.Time) time.Time { return wire.Instant(wire.MillisUp(t)) }

// fill makes the columns that were read a dead letter, but for its message.
func (r *Record) fill() *Record {
	r.Seq, r.Epoch, r.Mark.Shard, r.State = int64(r.seq), uint32(r.epoch), uint32(r.shard), deadletter.Held
	if r.state == replaying {
		r.State = deadletter.Replaying
	}
	if r.damaged {
		r.Damaged = "the stored message is damaged"
	}
	if len(r.history) == 0 {
		return r
	}
	var err error
	if r.History, err = rules.DecodeHistory(r.history); err != nil {
		r.History = []deadletter.Failure{{At: r.Last, Kind: tidemill.Internal, Cause: "the stored history was damaged and is lost"}}
	}
	if n := len(r.History); n > 0 {
		r.Cause = r.History[n-1].Cause
	}
	return r
}

// fillMessage does it for the message, and sees whether it is damaged. Where it is, the columns
// still have its position.
func (r *Record) fillMessage() {
	shard, hi, lo := r.Mark.Shard, r.Mark.Hi, r.Mark.Lo
	err := decodeMessage(r.message, &r.Letter)
	r.Mark.Shard, r.Mark.Hi, r.Mark.Lo = shard, hi, lo
	if found := rules.SumOf(&r.Letter, r.message); err != nil || found != r.sum {
		r.Damaged = fmt.Sprintf("the stored message is damaged: its checksum is %016x, %016x was written; what is left of it can be looked at, not replayed", found, r.sum)
		r.Cause = r.Damaged
	}
}

// whole makes records that were read with all fields dead letters. It reads the messages that are
// apart.
func whole(tx table.Reader[Record], rows ...*Record) error {
	var keys []string
	for _, r := range rows {
		if r.apart {
			keys = append(keys, contentKey(r.key))
		}
	}
	var contents map[string]*Record
	if len(keys) > 0 {
		var err error
		if contents, err = tx.Get(keys, body...); err != nil {
			return err
		}
	}
	for _, r := range rows {
		if c := contents[contentKey(r.key)]; c != nil && r.apart {
			r.message, r.Payload, r.Row, r.Original = c.message, c.Payload, c.Row, c.Original
		}
		r.fill().fillMessage()
	}
	return nil
}

// seal makes the columns of a dead letter.
func (r *Record) seal() *Record {
	r.seq, r.epoch, r.shard, r.state, r.damaged = uint64(r.Seq), int(r.Epoch), int(r.Mark.Shard), held, r.Damaged != ""
	if r.State == deadletter.Replaying {
		r.state = replaying
	}
	r.Due, r.Until = up(r.Due), up(r.Until)
	if r.History != nil {
		r.history = rules.EncodeHistory(r.History)
	}
	return r
}

// write writes whole dead letters with their encoded messages.
func write(tx table.Tx[Record], letters []*Record, rows ...*Record) error {
	var gone []string
	for _, r := range letters {
		before := r.apart
		r.seal().sum = rules.SumOf(&r.Letter, r.message)
		if r.apart = len(r.Payload)+len(r.Row)+len(r.Original)+len(r.message) >= apartMin; !r.apart {
			if rows = append(rows, r); before {
				gone = append(gone, contentKey(r.key))
			}
			continue
		}
		light, c := *r, &Record{key: contentKey(r.key), state: content}
		c.message, c.Payload, c.Row, c.Original = r.message, r.Payload, r.Row, r.Original
		light.message, light.Payload, light.Row, light.Original = nil, nil, nil, nil
		rows = append(rows, &light, c)
	}
	if len(gone) > 0 {
		if err := tx.Delete(gone); err != nil {
			return err
		}
	}
	return tx.Put(rows)
}

// remove deletes dead letters. Their field apart was read.
func remove(tx table.Tx[Record], rows []*Record) error {
	if len(rows) == 0 {
		return nil
	}
	keys := make([]string, 0, len(rows))
	for _, r := range rows {
		if keys = append(keys, r.key); r.apart {
			keys = append(keys, contentKey(r.key))
		}
	}
	return tx.Delete(keys)
}

// version is the first byte of an encoded message: a new form gets a new number.
const version = 1

// encodeMessage writes all that is neither a column nor the payload, and whether there is a row.
func encodeMessage(m *tidemill.Message, row []byte) []byte {
	has := byte(0)
	if row != nil {
		has = 1
	}
	return rules.AppendMessage(append(make([]byte, 0, 128), version, m.Priority, has), m)
}

// decodeMessage is the inverse of encodeMessage. It copies what it keeps.
func decodeMessage(b []byte, l *deadletter.Letter) error {
	r := wire.NewReader(b)
	if r.Byte() != version {
		return wire.ErrDamaged
	}
	l.Priority = r.Byte()
	if r.Byte() == 1 && l.Row == nil {
		l.Row = []byte{} // an empty one is read back as nil
	}
	rules.ReadMessage(r, &l.Message)
	return r.End()
}

// accounts are books by pipeline.
type accounts map[string]*books

// rows are the records of books.
func (a accounts) rows() (rows []*Record) {
	for name, b := range a {
		rows = append(rows, &Record{key: booksKey(name), state: account, books: *b})
		rows[len(rows)-1].Pipeline = name
	}
	return rows
}

// read finds the books of pipelines, and dead letters by their keys: with the fields only, without
// with all but messages that are apart. Books that do not exist are zero.
func read(tx table.Reader[Record], pipelines, keys []string, only ...string) (found map[string]*Record, of accounts, err error) {
	of = accounts{}
	for _, name := range pipelines {
		if of[name] == nil {
			of[name] = &books{}
			keys = append(keys, booksKey(name))
		}
	}
	if len(only) > 0 && len(of) > 0 {
		only = append(only, counts...)
	}
	if found, err = tx.Get(keys, only...); err != nil {
		return nil, nil, err
	}
	for name, b := range of {
		if row := found[booksKey(name)]; row != nil {
			*b = row.books
			delete(found, row.key)
		}
	}
	for _, r := range found {
		r.fill()
	}
	return found, of, nil
}
