package redissource

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/tidemill/tidemill"
)

// A message that the Intake writes is an entry of two fields, always in this order, so that
// Redis stores their names once for a hundred entries: the metadata and the payload.
const (
	metaField    = "tidemill"
	payloadField = "payload"
)

// metaVersion is the first byte of the metadata. After it come time (varint, milliseconds; a zero
// time is the smallest number), priority (byte), then ID, tenant, type and key, each after its
// length (uvarint), then the headers: their number, and the name and value of each after their
// lengths.
const metaVersion = 1

const noTime = -1 << 63

// appendMeta appends the metadata.
func appendMeta(b []byte, m *tidemill.Message) []byte {
	ms := int64(noTime)
	if !m.Time.IsZero() {
		ms = m.Time.UnixMilli()
	}
	b = binary.AppendVarint(append(b, metaVersion), ms)
	b = append(b, m.Priority)
	b = appendText(b, m.ID)
	b = appendText(b, m.Tenant)
	b = appendText(b, m.Type)
	b = appendText(b, m.Key)
	b = binary.AppendUvarint(b, uint64(len(m.Header)))
	for i := range m.Header {
		b = appendText(b, m.Header[i].Name)
		b = appendText(b, m.Header[i].Value)
	}
	return b
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// readMeta is the inverse of appendMeta; false: another program wrote the bytes, or they
// are damaged. Texts and headers point into b, which must not change from then on. The key
// is copied: appending to it must not change them.
func readMeta(m *tidemill.Message, b []byte) bool {
	if len(b) == 0 || b[0] != metaVersion {
		return false
	}
	d := decoder{b: b, at: 1}
	ms, n := binary.Varint(b[1:])
	if d.at += n; n <= 0 || d.at >= len(b) {
		return false
	}
	priority := b[d.at]
	d.at++
	var texts [3]string
	for i := range texts {
		from, to := d.text()
		texts[i] = unsafe.String(unsafe.SliceData(b[from:to]), to-from)
	}
	from, to := d.text()
	m.Header = m.Header[:0]
	for n := d.number(); n > 0 && !d.bad; n-- {
		from1, to1 := d.text()
		from2, to2 := d.text()
		m.Header = append(m.Header, tidemill.Field{Name: b[from1:to1:to1], Value: b[from2:to2:to2]})
	}
	if d.bad || d.at != len(b) {
		m.Header = m.Header[:0]
		return false
	}
	m.ID, m.Tenant, m.Type, m.Priority = texts[0], texts[1], texts[2], priority
	m.Key = append(m.Key[:0], b[from:to]...)
	if m.Time = (time.Time{}); ms != noTime {
		m.Time = time.UnixMilli(ms).UTC()
	}
	return true
}

// decoder reads lengths and what follows them. Where it cannot read, the value is empty,
// and it is bad.
type decoder struct {
	b   []byte
	at  int
	bad bool
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.b[d.at:])
	if n <= 0 || v > uint64(len(d.b)-d.at-n) { // each counted value takes at least a byte
		d.bad = true
		return 0
	}
	d.at += n
	return v
}

// text returns the position of a text.
func (d *decoder) text() (from, to int) {
	n := d.number()
	if d.bad {
		return 0, 0
	}
	from = d.at
	d.at += int(n)
	return from, d.at
}
