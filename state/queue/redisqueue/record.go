package redisqueue

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// A record is one job, as Redis keeps it. Its head is for the scripts (see common.lua);
// before it is when the job was added, 6 bytes, written by the caller of Add, or by a
// script, which copies the record for that. Its body is for us:
//
//	length of the payload (uvarint), then, compressed where the form says so, the payload
//	and the rest of the message
//
// The payload comes first, so that it can be decoded directly into a message's memory.
const (
	addedBytes = 6
	headBytes  = 5

	formPlain = 0 // the body is as it is
	formDict  = 1 // compressed with the queue's dictionary

	digestBytes = 12 // of names
	idBytes     = 8  // of those, that of the ID alone
)

// errRecord says that a record differs from what was written.
var errRecord = errors.New("a job's bytes in Redis are not those that were written: was it changed by another program?")

// maxTenant is the longest name of a tenant.
const maxTenant = 1<<16 - 1

// appendDigest appends the digest of a name: 8 bytes of its ID's hash, so that all jobs of
// an ID can be found, and 4 of both. Among a million million names two are confused with a
// chance of one in 150,000.
func appendDigest(b []byte, tenant, id string) []byte {
	var room [256]byte
	of := sha256.Sum256(append(room[:0], id...))
	text := binary.AppendUvarint(room[:0], uint64(len(tenant)))
	both := sha256.Sum256(append(append(text, tenant...), id...))
	return append(append(b, of[:idBytes]...), both[:digestBytes-idBytes]...)
}

func digest(tenant, id string) string {
	return rueidis.BinaryString(appendDigest(make([]byte, 0, digestBytes), tenant, id))
}

// idDigest is the ID's part of a digest.
func idDigest(id string) string { return digest("", id)[:idBytes] }

// appendName appends the digest of a job's name and, where it is delayed, until when.
func (s *Store) appendName(b []byte, m *tidemill.Message) []byte {
	b = appendDigest(b, m.Tenant, m.ID)
	if !m.At.IsZero() && m.At.After(s.now()) {
		ms := m.At.UnixMilli()
		if m.At.Nanosecond()%1e6 > 0 {
			ms++
		}
		b = strconv.AppendInt(b, ms, 10)
	}
	return b
}

// keyBytes is how much of a key's hash identifies it in scripts.
const keyBytes = 8

// appendAdded appends when a job was added, the beginning of a record.
func appendAdded(b []byte, ms int64) []byte {
	return append(b, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms))
}

// appendRecord appends a message's record without when it was added.
func appendRecord(b []byte, m *tidemill.Message, p packer) []byte {
	start := len(b)
	b = append(b, formPlain, 0, m.Priority)
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.Tenant)))
	b = append(b, m.Tenant...)
	if len(m.Key) > 0 {
		key := sha256.Sum256(m.Key)
		b = append(b, key[:keyBytes]...)
		b[start+1] = keyBytes
	}
	b = binary.AppendUvarint(b, uint64(len(m.Payload)))
	body := len(b)
	b = append(b, m.Payload...)
	b = appendRest(b, m)
	if packed := p.pack(b[body:]); packed != nil {
		b = append(b[:body], packed...)
		b[start] = formDict
	}
	return b
}

const noTime = -1 << 63

// appendRest appends the kept parts of a message beside its payload, tenant and priority.
func appendRest(b []byte, m *tidemill.Message) []byte {
	ms := int64(noTime)
	if !m.Time.IsZero() {
		ms = m.Time.UnixMilli()
	}
	b = binary.AppendVarint(b, ms)
	b = appendText(b, m.ID)
	b = appendText(b, m.Type)
	b = appendText(b, m.Key)
	own := 0
	for i := range m.Header {
		if rules.OwnHeader(m.Header[i]) {
			own++
		}
	}
	b = binary.AppendUvarint(b, uint64(len(m.Header)-own))
	for i := range m.Header {
		if own > 0 && rules.OwnHeader(m.Header[i]) {
			continue
		}
		b = appendText(b, m.Header[i].Name)
		b = appendText(b, m.Header[i].Value)
	}
	return b
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// readRecord fills a message from a record, and returns when it was added. Headers point
// into their own memory.
func readRecord(rec string, m *tidemill.Message, d *words) (added time.Time, err error) {
	if len(rec) < addedBytes+headBytes {
		return added, errRecord
	}
	ms := int64(0)
	for i := range addedBytes {
		ms = ms<<8 | int64(rec[i])
	}
	added = time.UnixMilli(ms).UTC()
	form, key, priority := rec[addedBytes], int(rec[addedBytes+1]), rec[addedBytes+2]
	tenant := int(rec[addedBytes+3])<<8 | int(rec[addedBytes+4])
	at := addedBytes + headBytes
	if len(rec) < at+tenant+key {
		return added, errRecord
	}
	m.Tenant, m.Priority = rec[at:at+tenant], priority
	at += tenant + key
	size, n := uvarint(rec[at:])
	if n <= 0 {
		return added, errRecord
	}
	at += n
	switch form {
	case formPlain:
		m.Payload = append(m.Payload[:0], rec[at:]...)
	case formDict:
		if m.Payload, err = d.unpack(m.Payload, rec[at:]); err != nil {
			return added, err
		}
	default:
		return added, errRecord
	}
	if uint64(len(m.Payload)) < size {
		return added, errRecord
	}
	if !readRest(m, m.Payload[size:], added) {
		return added, errRecord
	}
	m.Payload = m.Payload[:size]
	return added, nil
}

// uvarint is binary.Uvarint of a string.
func uvarint(s string) (uint64, int) {
	var b [binary.MaxVarintLen64]byte
	return binary.Uvarint(b[:copy(b[:], s)])
}

// readRest is the inverse of appendRest; what it fills is copied.
func readRest(m *tidemill.Message, b []byte, added time.Time) bool {
	ms, n := binary.Varint(b)
	if n <= 0 {
		return false
	}
	d := decoder{b: b[n:]}
	m.ID, m.Type = string(d.text()), string(d.text())
	m.Key = append(m.Key[:0], d.text()...)
	m.Header = m.Header[:0]
	if n := d.number(); n > 0 {
		rest := append([]byte(nil), d.b...)
		d.b = rest
		for ; n > 0 && !d.bad; n-- {
			m.Header = append(m.Header, tidemill.Field{Name: d.text(), Value: d.text()})
		}
	}
	if m.Time = added; ms != noTime {
		m.Time = time.UnixMilli(ms).UTC()
	}
	return !d.bad && len(d.b) == 0
}

// decoder reads lengths and what follows them. Where it cannot read, the value is empty,
// and it is bad.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > uint64(len(d.b)-n) { // each counted value takes at least a byte
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) text() []byte {
	n := d.number()
	t := d.b[:n:n]
	d.b = d.b[n:]
	return t
}

// late is what has changed in a job since it came.
type late struct {
	tries, handed int
	fate          tidemill.Fate
	ended         int64 // ms
	cause         string
}

// readLate reads "tries handed fate ended cause"; empty: nothing has changed.
func readLate(text string) (l late) {
	f := strings.SplitN(text, " ", 5)
	if len(f) < 5 {
		return l
	}
	l.tries, _ = strconv.Atoi(f[0])
	l.handed, _ = strconv.Atoi(f[1])
	switch f[2] {
	case "d", "r":
		l.fate = tidemill.Delivered
	case "s":
		l.fate = tidemill.Skipped
	case "x":
		l.fate = tidemill.Dead
	}
	l.ended, _ = strconv.ParseInt(f[3], 10, 64)
	l.cause = f[4]
	return l
}
