package redisdeadletter

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// version is the first byte of every encoding here: a new form gets a new number.
const version = 1

// errNewer is the error for another version.
var errNewer = errors.New("a newer program has written it: use that")

// encodeMeta writes a dead letter without its message and history. Times are milliseconds,
// 0: none.
func encodeMeta(r *deadletter.Record) string {
	b := make([]byte, 0, 64+len(r.Pipeline)+len(r.ID)+len(r.Tenant))
	flags := byte(0)
	if r.State == deadletter.Replaying {
		flags |= 1
	}
	if r.Damaged != "" {
		flags |= 2
	}
	b = append(b, version, flags, byte(r.Kind))
	for _, n := range []uint64{uint64(r.Mark.Shard), uint64(r.Mark.Epoch), r.Mark.Hi, r.Mark.Lo, uint64(r.Deaths), uint64(r.Replays),
		uint64(r.Asked), uint64(r.Handed), uint64(r.Burnt), uint64(r.Epoch)} {
		b = binary.AppendUvarint(b, n)
	}
	for _, ms := range []int64{wire.Millis(r.First), wire.Millis(r.Last), wire.MillisUp(r.Due), wire.MillisUp(r.Until), wire.Millis(r.Edited)} {
		b = binary.AppendVarint(b, ms)
	}
	for _, s := range []string{r.Pipeline, r.ID, r.Tenant} {
		b = wire.AppendString(b, s)
	}
	return string(b)
}

// decodeMeta is the inverse of encodeMeta.
func decodeMeta(b []byte) (*deadletter.Record, error) {
	d := wire.NewReader(b)
	if d.Byte() != version {
		return nil, errNewer
	}
	r := new(deadletter.Record)
	flags := d.Byte()
	if r.State = deadletter.Held; flags&1 != 0 {
		r.State = deadletter.Replaying
	}
	if flags&2 != 0 {
		r.Damaged = "the stored message is damaged"
	}
	r.Kind = tidemill.Kind(d.Byte())
	r.Mark = tidemill.Mark{Shard: uint32(d.Uvarint()), Epoch: uint32(d.Uvarint()), Hi: d.Uvarint(), Lo: d.Uvarint()}
	r.Deaths, r.Replays, r.Asked, r.Handed, r.Burnt = int(d.Uvarint()), int(d.Uvarint()), int(d.Uvarint()), int(d.Uvarint()), int(d.Uvarint())
	r.Epoch = uint32(d.Uvarint())
	r.First, r.Last, r.Due, r.Until = wire.Instant(d.Varint()), wire.Instant(d.Varint()), wire.Instant(d.Varint()), wire.Instant(d.Varint())
	r.Edited = wire.Instant(d.Varint())
	r.Pipeline, r.ID, r.Tenant = string(d.Bytes()), string(d.Bytes()), string(d.Bytes())
	return r, d.End()
}

// The parts of a dead letter's message that are in the field data.
const (
	dataIsRow = 1 << iota
	dataIsPayload
)

// encodeLetter writes everything without its own field in the entry, and the checksum of
// the whole dead letter. Bytes stay bytes, and times keep every nanosecond of any year.
func encodeLetter(r *deadletter.Record, flags byte) []byte {
	b := append(make([]byte, 0, 128), version, flags, r.Priority)
	b = binary.AppendVarint(b, wire.Millis(r.Edited))
	b = rules.AppendMessage(b, &r.Message)
	return binary.LittleEndian.AppendUint64(b, rules.SumOf(&r.Letter, b))
}

// rest is what decodeLetter finds beside the message.
type rest struct {
	flags  byte
	edited time.Time
	head   []byte // the checksum covers it
	sum    uint64 // as it was written
}

// decodeLetter is the inverse of encodeLetter; the caller compares the checksum. It copies
// what it keeps of the message.
func decodeLetter(b []byte, m *tidemill.Message) (of rest, err error) {
	n := len(b) - 8
	if n < 0 {
		return of, wire.ErrDamaged
	}
	of.head, of.sum = b[:n], binary.LittleEndian.Uint64(b[n:])
	r := wire.NewReader(of.head)
	if r.Byte() != version {
		return of, errNewer
	}
	of.flags, m.Priority, of.edited = r.Byte(), r.Byte(), wire.Instant(r.Varint())
	rules.ReadMessage(r, m)
	return of, r.End()
}
