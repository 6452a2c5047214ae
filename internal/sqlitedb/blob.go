package sqlitedb

import "fmt"

// Blob is a column's bytes, to scan into, without the copy that database/sql makes for a []byte: the
// driver has made them for this row alone. An empty one is nil.
type Blob []byte

// Scan implements sql.Scanner.
func (b *Blob) Scan(src any) error {
	bytes, is := src.([]byte)
	if !is && src != nil {
		return fmt.Errorf("a column has a %T for bytes", src)
	}
	*b = bytes
	return nil
}
