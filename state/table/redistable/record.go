package redistable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// versionSize is the length of a version, in hex, before a record.
const versionSize = 16

// kept is a record as it is in Redis: its version, the number of its fields without the key, and
// the fields, in the order of the spec.
type kept[T any] struct {
	version string // empty: there is none
	row     *T     // nil: there is none
	more    int    // fields that a newer program has written, and this one does not know
	unknown string // their bytes
}

func (k *kept[T]) encode(fields []table.Field[T]) string {
	b := binary.AppendUvarint(nil, uint64(len(fields)-1+k.more))
	for _, f := range fields[1:] {
		switch p := f.At(k.row).(type) {
		case *string:
			b = wire.AppendString(b, *p)
		case *[]byte:
			b = wire.AppendString(b, *p)
		case *time.Time:
			b = binary.AppendVarint(b, layout.Millis(*p))
		case *uint64:
			b = binary.AppendUvarint(b, *p)
		case *int:
			b = binary.AppendVarint(b, int64(*p))
		case *uint8:
			b = append(b, *p)
		case *bool:
			b = append(b, bit(*p))
		}
	}
	return string(b) + k.unknown
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// decode reads what Redis has of a key, empty where there is no record. Fields that were not
// written are zero.
func decode[T any](key, value string, of []table.Field[T]) (*kept[T], error) {
	if value == "" {
		return new(kept[T]), nil
	}
	if len(value) < versionSize {
		return nil, fmt.Errorf("read the record %q: %w", key, wire.ErrDamaged)
	}
	k, from := &kept[T]{version: value[:versionSize], row: new(T)}, wire.NewReader([]byte(value[versionSize:]))
	*of[0].At(k.row).(*string) = key
	written := from.Count()
	for _, f := range of[1:min(1+written, len(of))] {
		read(from, f.At(k.row))
	}
	if k.more = max(written+1-len(of), 0); k.more > 0 {
		k.unknown = string(from.Rest())
	}
	if err := from.End(); err != nil || written == 0 {
		return nil, fmt.Errorf("read the record %q: %w", key, wire.ErrDamaged)
	}
	return k, nil
}

// read reads one field.
func read(from *wire.Reader, at any) {
	switch p := at.(type) {
	case *string:
		*p = string(from.Bytes())
	case *[]byte:
		*p = append([]byte(nil), from.Bytes()...)
	case *time.Time:
		*p = layout.Time(from.Varint())
	case *uint64:
		*p = from.Uvarint()
	case *int:
		*p = int(from.Varint())
	case *uint8:
		*p = from.Byte()
	case *bool:
		*p = from.Byte() != 0
	}
}

// sortable writes a field so that bytes compare as fields do, and no field is the beginning of
// another.
func sortable(b []byte, at any) []byte {
	text := func(s []byte) []byte {
		return append(append(b, bytes.ReplaceAll(s, []byte{0}, []byte{0, 255})...), 0, 0)
	}
	number := func(n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)^1<<63) }
	switch p := at.(type) {
	case *string:
		return text([]byte(*p))
	case *[]byte:
		return text(*p)
	case *time.Time:
		return number(layout.Millis(*p))
	case *uint64:
		return binary.BigEndian.AppendUint64(b, *p)
	case *int:
		return number(int64(*p))
	case *uint8:
		return append(b, *p)
	case *bool:
		return append(b, bit(*p))
	}
	panic(fmt.Sprintf("no field can be a %T", at))
}

// member is a record's member of an order, of its fields as At returns them, the key at the end:
// its position, and then how many bytes of it are the key's.
func member(at []any) string {
	var b []byte
	for _, p := range at[:len(at)-1] {
		b = sortable(b, p)
	}
	n := len(b)
	b = sortable(b, at[len(at)-1])
	return string(binary.BigEndian.AppendUint16(b, uint16(len(b)-n+2)))
}

func ats[T any](r *T, order []table.Field[T]) []any {
	all := make([]any, len(order))
	for i, f := range order {
		all[i] = f.At(r)
	}
	return all
}

// keyOf is the key in a member.
func keyOf(member string) string {
	n := int(binary.BigEndian.Uint16([]byte(member[len(member)-2:])))
	return string(bytes.ReplaceAll([]byte(member[len(member)-n:len(member)-4]), []byte{0, 255}, []byte{0}))
}

// bounds are the range of a plan's page in its order, in the form of ZRANGEBYLEX.
func bounds[T any](p *layout.Plan[T], order []table.Field[T]) (low, high string) {
	var prefix []byte
	for _, c := range p.Equal {
		prefix = sortable(prefix, c.Value)
	}
	low, high = "["+string(prefix), beyond(prefix)
	if len(prefix) == 0 {
		low = "-"
	}
	for _, c := range p.Where {
		if len(p.Rest) == 0 || c.Name != p.Rest[0].Name || c.Op == "=" {
			continue
		}
		switch at := sortable(bytes.Clone(prefix), c.Value); c.Op {
		case ">":
			low = strings.Replace(beyond(at), "(", "[", 1)
		case ">=":
			low = "[" + string(at)
		case "<":
			high = "(" + string(at)
		case "<=":
			high = beyond(at)
		}
	}
	if p.After != nil && p.Back {
		high = "(" + member(ats(p.After, order))
	} else if p.After != nil {
		low = "(" + member(ats(p.After, order))
	}
	return low, high
}

// beyond is the end of what begins with these bytes.
func beyond(prefix []byte) string {
	b := bytes.Clone(prefix)
	for len(b) > 0 && b[len(b)-1] == 255 {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return "+"
	}
	b[len(b)-1]++
	return "(" + string(b)
}
