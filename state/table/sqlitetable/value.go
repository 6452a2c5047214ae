package sqlitetable

import (
	"fmt"
	"time"

	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// value is a field as a column has it.
func value(at any) any {
	switch p := at.(type) {
	case *string:
		return []byte(*p)
	case *[]byte:
		if *p == nil {
			return []byte{} // nil would be NULL
		}
		return *p
	case *time.Time:
		return layout.Millis(*p)
	case *uint64:
		return int64(*p) // the bits
	case *int:
		return int64(*p)
	case *uint8:
		return int64(*p)
	case *bool:
		return *p
	}
	panic(fmt.Sprintf("no field can be a %T", at))
}

// zero says whether a value is that of a zero field.
func zero(v any) bool {
	switch v := v.(type) {
	case []byte:
		return len(v) == 0
	case int64:
		return v == 0
	}
	return v == false
}

// column scans a column into a field.
type column struct{ at any }

// Scan implements sql.Scanner.
func (c *column) Scan(src any) error {
	n, number := src.(int64)
	b, bytes := src.([]byte)
	switch p := c.at.(type) {
	case *string:
		*p, number = string(b), bytes
	case *[]byte:
		*p, number = b, bytes // the driver's, for this row alone: see sqlitedb.Blob
	case *time.Time:
		*p = layout.Time(n)
	case *uint64:
		*p = uint64(n)
	case *int:
		*p = int(n)
	case *uint8:
		*p = uint8(n)
	case *bool:
		*p = n != 0
	}
	if !number {
		return fmt.Errorf("a column has a %T for a %T", src, c.at)
	}
	return nil
}
