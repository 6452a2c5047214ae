package event

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// Format of an event's bytes.
type Format uint8

const (
	Stream      Format = iota // a stream entry: fields as headers, or one JSON field as payload
	Native                    // an element of {"events":[…]} of the native SDKs
	PostHog                   // an element of a PostHog batch, old paths and new
	Segment                   // an element of a Segment batch
	CloudEvents               // CloudEvents 1.0, structured (the endpoint rewrites binary ones so)
	formats
)

// Meta is what the endpoint knew of an event besides its bytes. It travels in one header field
// of the message, MetaHeader.
type Meta struct {
	Format   Format
	Import   bool      // times are kept as given
	Checked  bool      // the endpoint has checked that the bytes are one JSON value
	Sum      uint64    // with Checked: SumOf the bytes that it has checked, which somebody may have edited since; 0: not said
	Project  uuid.UUID //
	Event    uuid.UUID // the id that the endpoint gave or found; Nil: derived by Decode
	Received time.Time // by the server, milliseconds
	At       time.Time // when it happened, as decided by the endpoint, milliseconds; zero: Decode decides
	Order    uint64    // with At: the event's Order
	Beyond   bool      // with At: it is a bound, and the event's own time is kept as GivenTimestamp
	Batch    string    // batch id of an import
	IP       string    // of the connection, or from a trusted proxy; empty: the sender is a server
	Agent    string    // User-Agent; empty: the sender is a server
	Context  string    // Segment: the JSON object that is the batch's context for all its calls; empty: none
	Whose    string    // CloudEvents: where the distinct id is, see CheckCloudEventsID, separated by commas; empty: CloudEventsID
	Call     string    // Segment: track, identify, page, screen, group or alias, as the path says, for a body without type

	// If At is zero, these decide it. They do not travel.
	Sent  time.Time // by the client's clock; zero: not said
	Clock Clock
}

// calls are the values of Meta.Call, which travels as its index.
var calls = [...]string{"", "track", "identify", "page", "screen", "group", "alias"}

// The flags of Meta besides Import's, 1: the call's index lies between them.
const (
	beyond  = 0x40
	checked = 0x80
)

// MetaHeader names the header that carries a Meta.
const MetaHeader = "tidemill-meta"

// Append appends the binary form of m to b.
func (m *Meta) Append(b []byte) []byte {
	flags := byte(0)
	if m.Import {
		flags = 1
	}
	if m.Checked {
		flags |= checked
	}
	if m.Beyond {
		flags |= beyond
	}
	flags |= byte(max(slices.Index(calls[:], m.Call), 0)) << 1
	b = append(b, 2, byte(m.Format), flags)
	b = append(b, m.Project[:]...)
	b = append(b, m.Event[:]...)
	b = binary.AppendVarint(b, milli(m.Received))
	b = binary.AppendVarint(b, milli(m.At))
	b = binary.AppendUvarint(b, m.Order)
	for _, s := range [...]string{m.Batch, m.IP, m.Agent, m.Context, m.Whose} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if m.Checked && m.Sum != 0 { // at the end, where the versions before it do not look
		b = binary.LittleEndian.AppendUint64(b, m.Sum)
	}
	return b
}

// SumOf tells bytes from others; it is not 0.
func SumOf(raw []byte) uint64 { return max(xxhash.Sum64(raw), 1) }

// ParseMeta reads what Append wrote.
func ParseMeta(b []byte) (Meta, error) { return parseMeta(b, nil) }

func parseMeta(b []byte, w *words) (m Meta, err error) {
	bad := func() (Meta, error) {
		return Meta{}, tidemill.Fail(tidemill.Validation, "header %s is damaged or of a newer version", MetaHeader)
	}
	if len(b) < 35 || b[0] != 2 || Format(b[1]) >= formats || int(b[2]&^(checked|beyond)>>1) >= len(calls) {
		return bad()
	}
	m.Format, m.Import, m.Checked, m.Call = Format(b[1]), b[2]&1 != 0, b[2]&checked != 0, calls[b[2]&^(checked|beyond)>>1]
	m.Beyond = b[2]&beyond != 0
	copy(m.Project[:], b[3:19])
	copy(m.Event[:], b[19:35])
	b = b[35:]
	for _, t := range [...]*time.Time{&m.Received, &m.At} {
		v, n := binary.Varint(b)
		if n <= 0 {
			return bad()
		}
		if b = b[n:]; v != 0 {
			*t = time.UnixMilli(v).UTC()
		}
	}
	order, n := binary.Uvarint(b)
	if n <= 0 {
		return bad()
	}
	m.Order, b = order, b[n:]
	for _, s := range [...]*string{&m.Batch, &m.IP, &m.Agent, &m.Context, &m.Whose} {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > uint64(len(b)-n) {
			return bad()
		}
		*s, b = w.get(b[n:n+int(v)]), b[n+int(v):]
	}
	if m.Checked && len(b) > 0 {
		if len(b) < 8 {
			return bad()
		}
		m.Sum = binary.LittleEndian.Uint64(b)
	}
	return m, nil
}

func milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Refusal is why an event is refused: the reason by which it is counted, and a sentence for its
// sender. It is of kind validation.
type Refusal struct {
	Reason string // invalid_event, illegal_distinct_id, unknown_project
	Detail string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Reason, r.Detail) }

// Refuse makes a Refusal with its kind.
func Refuse(reason, format string, args ...any) error {
	return &tidemill.Error{Kind: tidemill.Validation, Err: &Refusal{reason, fmt.Sprintf(format, args...)}}
}
