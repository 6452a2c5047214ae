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

// versionSize is the length of a version, in hex, before the fields of a row.
const versionSize = 16

// encode writes the fields of a record but its key, in the order of the spec.
func encode[T any](r *T, fields []table.Field[T]) string {
	var b []byte
	for _, f := range fields[1:] {
		switch p := f.At(r).(type) {
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
	return string(b)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// decode is the inverse of encode.
func decode[T any](key, fields string, of []table.Field[T]) (*T, error) {
	r, from := new(T), wire.NewReader([]byte(fields))
	*of[0].At(r).(*string) = key
	for _, f := range of[1:] {
		switch p := f.At(r).(type) {
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
	if err := from.End(); err != nil {
		return nil, fmt.Errorf("read the record %q: %w", key, err)
	}
	return r, nil
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

// member is a record's member of an order: its position, and at the end how many bytes of it are
// the key's; no record: empty.
func member[T any](r *T, order []table.Field[T]) string {
	if r == nil {
		return ""
	}
	var b []byte
	for _, f := range order[:len(order)-1] {
		b = sortable(b, f.At(r))
	}
	n := len(b)
	b = sortable(b, order[len(order)-1].At(r))
	return string(binary.BigEndian.AppendUint16(b, uint16(len(b)-n+2)))
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
		high = "(" + member(p.After, order)
	} else if p.After != nil {
		low = "(" + member(p.After, order)
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
