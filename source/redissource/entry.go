package redissource

import (
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// errReply is for a server that does not speak as documented.
var errReply = errors.New("the answer is not what Redis says it is")

// parseRead reads the answer of XREADGROUP for one stream. Entries point into the answer,
// of which each name and value has memory of its own.
func parseRead(res rueidis.RedisResult) ([]entry, error) {
	m, err := res.ToMessage()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list rueidis.RedisMessage
	if m.IsMap() {
		streams, err := m.ToMap()
		if err != nil {
			return nil, err
		}
		for _, list = range streams { // one
		}
	} else {
		streams, err := m.ToArray()
		if err != nil || len(streams) == 0 {
			return nil, err
		}
		pair, err := streams[0].ToArray()
		if err != nil || len(pair) != 2 {
			return nil, errors.Join(errReply, err)
		}
		list = pair[1]
	}
	rows, err := list.ToArray()
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(rows))
	for i := range rows {
		row, err := rows[i].ToArray()
		if err != nil || len(row) != 2 {
			return nil, errors.Join(errReply, err)
		}
		e := entry{count: 1}
		if err := e.parse(&row[0], &row[1]); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// parseTaken reads entries {id, count, tries, fields}.
func parseTaken(list rueidis.RedisMessage) ([]entry, error) {
	rows, err := list.ToArray()
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(rows))
	for i := range rows {
		row, err := rows[i].ToArray()
		if err != nil || len(row) != 4 {
			return nil, errors.Join(errReply, err)
		}
		count, err1 := row[1].AsInt64()
		tries, err2 := row[2].AsInt64()
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		e := entry{count: int(count), tries: int(tries)}
		if err := e.parse(&row[0], &row[3]); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (e *entry) parse(id, fields *rueidis.RedisMessage) (err error) {
	if e.id, err = id.ToString(); err != nil {
		return err
	}
	var ok bool
	if e.place, ok = parsePlace(e.id); !ok {
		return errReply
	}
	if e.fields, err = fields.ToArray(); err == nil && len(e.fields)%2 != 0 {
		err = errReply
	}
	return err
}

// message fills m: with the message that the Intake wrote, or with the fields of an entry
// that somebody else did. It points to the entry's memory.
func (e *entry) message(m *tidemill.Message, stream string) {
	m.To, m.At, m.Tries, m.Handed = stream, time.Time{}, e.tries, e.count
	m.Mark = tidemill.Mark{Hi: e.ms, Lo: e.seq}
	m.Header = m.Header[:0]
	if len(e.fields) == 4 && string(text(&e.fields[0])) == metaField {
		if meta, err := e.fields[1].ToString(); err == nil && readMeta(m, meta, text(&e.fields[1])) {
			m.Payload = text(&e.fields[3])
			if m.Time.IsZero() { // then it is when it was accepted
				m.Time = time.UnixMilli(int64(e.ms)).UTC()
			}
			return
		}
	}
	m.ID, m.Tenant, m.Type, m.Key, m.Priority = e.id, "", "", nil, 0
	m.Time = time.UnixMilli(int64(e.ms)).UTC()
	m.Payload = nil
	for i := 0; i+1 < len(e.fields); i += 2 {
		m.Header = append(m.Header, tidemill.Field{Name: text(&e.fields[i]), Value: text(&e.fields[i+1])})
	}
	if len(e.fields) == 2 {
		m.Payload = m.Header[0].Value
	}
}

// text is the bytes of a string, without a copy.
func text(m *rueidis.RedisMessage) []byte {
	b, _ := m.AsBytes() // the entries of a stream are strings
	return b
}
