package redissource

import (
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// entry is an entry that was read.
type entry struct {
	place
	id     string
	fields []tidemill.Field
	count  int // of hand-outs, this one included
	tries  int
}

// batch is entries that were read together, and their memory.
type batch struct {
	entries []entry
	fields  []tidemill.Field // of all of them
}

// reset makes room, and lets go of the memory that entries pointed to.
func (b *batch) reset() {
	clear(b.entries)
	clear(b.fields)
	b.entries, b.fields = b.entries[:0], b.fields[:0]
}

// errReply is for a server whose answer differs from the documentation.
var errReply = errors.New("the answer is not what Redis says it is")

// parseRead reads the answer of XREADGROUP for one stream. Entries point into the answer,
// of which each name and value has memory of its own.
func (b *batch) parseRead(res rueidis.RedisResult) error {
	m, err := res.ToMessage()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var list rueidis.RedisMessage
	if m.IsMap() {
		streams, err := m.ToMap()
		if err != nil {
			return err
		}
		for _, list = range streams { // one
		}
	} else {
		streams, err := m.ToArray()
		if err != nil || len(streams) == 0 {
			return err
		}
		pair, err := streams[0].ToArray()
		if err != nil || len(pair) != 2 {
			return errors.Join(errReply, err)
		}
		list = pair[1]
	}
	rows, err := list.ToArray()
	if err != nil {
		return err
	}
	for i := range rows {
		row, err := rows[i].ToArray()
		if err != nil || len(row) != 2 {
			return errors.Join(errReply, err)
		}
		if err := b.add(&row[0], &row[1], 1, 0); err != nil {
			return err
		}
	}
	return nil
}

// parseTaken reads entries {id, count, tries, fields}.
func (b *batch) parseTaken(list rueidis.RedisMessage) error {
	rows, err := list.ToArray()
	if err != nil {
		return err
	}
	for i := range rows {
		row, err := rows[i].ToArray()
		if err != nil || len(row) != 4 {
			return errors.Join(errReply, err)
		}
		count, err1 := row[1].AsInt64()
		tries, err2 := row[2].AsInt64()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if err := b.add(&row[0], &row[3], int(count), int(tries)); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) add(id, fields *rueidis.RedisMessage, count, tries int) (err error) {
	e := entry{count: count, tries: tries}
	if e.id, err = id.ToString(); err != nil {
		return err
	}
	var ok bool
	if e.place, ok = parsePlace(e.id); !ok {
		return errReply
	}
	texts, err := fields.ToArray()
	if err != nil {
		return err
	}
	if len(texts)%2 != 0 {
		return errReply
	}
	from := len(b.fields)
	for i := 0; i < len(texts); i += 2 {
		b.fields = append(b.fields, tidemill.Field{Name: text(&texts[i]), Value: text(&texts[i+1])})
	}
	e.fields = b.fields[from:len(b.fields):len(b.fields)]
	b.entries = append(b.entries, e)
	return nil
}

// message fills m: with the message that the Intake wrote, or with the fields of an entry
// that another program wrote. It points to the entry's memory.
func (e *entry) message(m *tidemill.Message, stream string) {
	m.To, m.At, m.Tries, m.Handed = stream, time.Time{}, e.tries, e.count
	m.Mark = tidemill.Mark{Hi: e.ms, Lo: e.seq}
	m.Header = m.Header[:0]
	if len(e.fields) == 2 && string(e.fields[0].Name) == metaField && readMeta(m, e.fields[0].Value) {
		m.Payload = e.fields[1].Value
		if m.Time.IsZero() { // then the time of acceptance counts
			m.Time = time.UnixMilli(int64(e.ms)).UTC()
		}
		return
	}
	m.ID, m.Tenant, m.Type, m.Key, m.Priority = e.id, "", "", nil, 0
	m.Time = time.UnixMilli(int64(e.ms)).UTC()
	m.Payload = nil
	m.Header = append(m.Header, e.fields...)
	if len(e.fields) == 1 {
		m.Payload = e.fields[0].Value
	}
}

// text is the bytes of a string, without a copy, and without room to append.
func text(m *rueidis.RedisMessage) []byte {
	b, _ := m.AsBytes() // the entries of a stream are strings
	return b[:len(b):len(b)]
}
