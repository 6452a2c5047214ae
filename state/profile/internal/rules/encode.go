package rules

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/internal/register"
)

// ErrDamaged says that the stored attributes of a profile cannot be read. It comes with
// kind internal.
var ErrDamaged = errors.New("the stored attributes are damaged; restore the database from a backup, or delete the profile")

// AppendBinary appends the stored form, or nothing where rs is empty. Equal registers have
// equal bytes.
func (rs Registers) AppendBinary(b []byte) []byte {
	if len(rs) == 0 {
		return b
	}
	e := register.Begin(b, len(rs))
	for i := range rs {
		r := &rs[i]
		if e.Register(&r.Register, r.sum != nil); r.sum != nil {
			e.Stamp(r.sum.from)
			e.Stamp(r.sum.to)
			e.Value(r.sum.value)
		}
	}
	return e.End()
}

// Decode reads what AppendBinary wrote of a profile; anything else is ErrDamaged. The result
// points into b, which must not change any more.
func Decode(id uuid.UUID, b []byte) (Registers, error) {
	d, n := register.Open(b)
	rs := make(Registers, n)
	for i := range rs {
		r := &rs[i]
		if d.Register(&r.Register) {
			r.sum = &sum{d.Stamp(), d.Stamp(), d.Value()}
		}
		d.Bad((r.Has&register.HasFirst != 0) != (r.First.Value != nil))
	}
	if err := d.End(); err != nil {
		return nil, tidemill.Fail(tidemill.Internal, "read profile %v: %w (%w)", id, ErrDamaged, err)
	}
	return rs, nil
}

// Object is the values as one JSON object, for programs that read the store by SQL.
func (rs Registers) Object() []byte {
	b := []byte{'{'}
	sep := ""
	for i := range rs {
		if v, ok := rs[i].Value(); ok {
			b = member(append(b, sep...), rs[i].Key, v)
			sep = ","
		}
	}
	return readable(append(b, '}'))
}

func member(b []byte, key string, value []byte) []byte {
	b, _ = jsontext.AppendQuote(b, key) // fails only for bytes that are not UTF-8
	return append(append(b, ':'), value...)
}
