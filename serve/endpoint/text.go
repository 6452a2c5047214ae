package endpoint

import (
	"encoding/json"
	"strconv"
	"time"
)

// Quote appends a JSON string.
func Quote(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil { // texts always can be
		return append(b, `""`...)
	}
	return append(b, q...)
}

// Number appends a member of an object, with a comma before it.
func Number(b []byte, name string, n int) []byte {
	return strconv.AppendInt(append(append(append(b, `,"`...), name...), `":`...), int64(n), 10)
}

// UTC is a time in UTC; the zero time stays.
func UTC(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
