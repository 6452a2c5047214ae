package kafkasource

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// Headers in which an Intake keeps what a record has no field for; Receive takes them out
// again. The record's own time is when it was written, because Kafka deletes by it: an old
// event must not be deleted at once.
const (
	prefix         = "tidemill-"
	idHeader       = prefix + "id"
	tenantHeader   = prefix + "tenant"
	typeHeader     = prefix + "type"
	timeHeader     = prefix + "time"     // milliseconds since 1970
	atHeader       = prefix + "at"       // the same
	priorityHeader = prefix + "priority" // 0 to 255
	asIs           = prefix + "as-is-"   // before the name of a job's own header that begins as ours
)

// record makes a record of a job. It keeps nothing of the job but its strings.
func record(m *tidemill.Message, topic string, bytes *[]byte) *kgo.Record {
	own := func(b []byte) []byte { // not nil: a record without a value means that its key is deleted
		start := len(*bytes)
		*bytes = append(*bytes, b...)
		return (*bytes)[start:len(*bytes):len(*bytes)]
	}
	r := &kgo.Record{Topic: topic, Value: own(m.Payload), Headers: make([]kgo.RecordHeader, 0, len(m.Header)+3)}
	if len(m.Key) > 0 {
		r.Key = own(m.Key)
	}
	add := func(name, value string) {
		if value != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
	}
	add(idHeader, m.ID)
	add(tenantHeader, m.Tenant)
	add(typeHeader, m.Type)
	if !m.Time.IsZero() {
		add(timeHeader, strconv.FormatInt(m.Time.UnixMilli(), 10))
	}
	if !m.At.IsZero() {
		add(atHeader, strconv.FormatInt(queue.MillisUp(m.At).UnixMilli(), 10))
	}
	if m.Priority > 0 {
		add(priorityHeader, strconv.Itoa(int(m.Priority)))
	}
	for _, f := range m.Header {
		name := string(f.Name)
		if strings.HasPrefix(name, prefix) {
			name = asIs + name
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: own(f.Value)})
	}
	return r
}

// size is how many bytes record copies.
func size(m *tidemill.Message) int {
	n := len(m.Payload) + len(m.Key)
	for _, f := range m.Header {
		n += len(f.Value)
	}
	return n
}

// message makes a message of a record. It points to the record's memory.
func (s *Source) message(m *tidemill.Message, p *partition, o int64, sl *slot) {
	r := sl.rec
	m.ID, m.Tenant, m.Type, m.Priority = "", "", "", 0
	m.To, m.Key, m.Payload, m.Time, m.At = s.topic, r.Key, r.Value, r.Timestamp, time.Time{}
	m.Header = m.Header[:0]
	for i := range r.Headers {
		h := &r.Headers[i]
		if strings.HasPrefix(h.Key, prefix) && s.ours(m, h) {
			continue
		}
		m.Header = append(m.Header, tidemill.Field{Name: s.names.of(strings.TrimPrefix(h.Key, asIs)), Value: h.Value})
	}
	if m.ID == "" {
		m.ID = position(s.topic, p, o)
	}
	m.Tries, m.Handed = int(sl.tries), p.handouts(o, sl)
	m.Mark = tidemill.Mark{Shard: uint32(p.id), Epoch: sl.epoch, Hi: p.row.incarnation(), Lo: uint64(o)}
}

// ours takes a header that Intake wrote.
func (s *Source) ours(m *tidemill.Message, h *kgo.RecordHeader) bool {
	switch h.Key {
	case idHeader:
		m.ID = string(h.Value)
	case tenantHeader:
		m.Tenant = s.names.text(h.Value)
	case typeHeader:
		m.Type = s.names.text(h.Value)
	case priorityHeader:
		n, err := strconv.ParseUint(string(h.Value), 10, 8)
		m.Priority = uint8(n)
		return err == nil
	case timeHeader:
		t, ok := millis(h.Value)
		if ok {
			m.Time = t
		}
		return ok
	case atHeader:
		t, ok := millis(h.Value)
		if ok {
			m.At = t
		}
		return ok
	default:
		return false
	}
	return true
}

func millis(v []byte) (time.Time, bool) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	return time.UnixMilli(n).UTC(), err == nil
}

// notBefore is when a record may be handed out; zero: at once.
func notBefore(r *kgo.Record) time.Time {
	for i := range r.Headers {
		if r.Headers[i].Key == atHeader {
			if t, ok := millis(r.Headers[i].Value); ok {
				return t
			}
		}
	}
	return time.Time{}
}

// position names a record without a name from its producer. It contains the topic's id,
// because a recreated topic begins at offset 0 again, with other records.
func position(topic string, p *partition, o int64) string {
	var room [128]byte // most are shorter
	b := append(append(room[:0], topic...), '/')
	b = strconv.AppendInt(b, int64(p.id), 10)
	b = strconv.AppendInt(append(b, '/'), o, 10)
	if p.row.Topic != [16]byte{} {
		b = hex.AppendEncode(append(b, '@'), p.row.Topic[:4])
	}
	return string(b)
}

// incarnation tells a topic from an earlier one of the same name.
func (r *row) incarnation() (n uint64) {
	for _, b := range r.Topic[:8] {
		n = n<<8 | uint64(b)
	}
	return n
}

// names are header names, tenants and types. These are few, so each is allocated once.
type names struct {
	bytes map[string][]byte
	texts map[string]string
}

const maxNames = 1024 // beyond, all are forgotten

func (n *names) of(name string) []byte {
	b, ok := n.bytes[name]
	if !ok {
		if len(n.bytes) >= maxNames || n.bytes == nil {
			n.bytes = map[string][]byte{}
		}
		b = []byte(name)
		n.bytes[name] = b[:len(b):len(b)]
	}
	return b
}

func (n *names) text(v []byte) string {
	t, ok := n.texts[string(v)]
	if !ok {
		if len(n.texts) >= maxNames || n.texts == nil {
			n.texts = map[string]string{}
		}
		t = string(v)
		n.texts[t] = t
	}
	return t
}
