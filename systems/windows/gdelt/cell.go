package gdelt

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/systems/windows/record"
)

// appendCell appends a cell as a JSON value. An empty cell, or one that cannot be read as its
// type, is null. A number keeps its digits.
func appendCell(dst []byte, t record.Type, cell []byte) []byte {
	if len(cell) == 0 {
		return append(dst, "null"...)
	}
	start := len(dst)
	switch t {
	case record.Text:
		dst, _ = jsontext.AppendQuote(dst, cell) // U+FFFD replaces what is not UTF-8
		return dst
	case record.Integer:
		if n, ok := integer(cell); ok {
			return strconv.AppendInt(dst, n, 10)
		}
	case record.Number:
		if dst, ok := appendNumber(dst, cell); ok {
			return dst
		}
	}
	return append(dst[:start], "null"...)
}

// integer reads a cell as an integer of 64 bits.
func integer(cell []byte) (int64, bool) {
	if len(cell) == 0 || len(cell) > 32 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(cell), 10, 64)
	return n, err == nil
}

// appendNumber appends a decimal number as JSON writes it: without a plus, leading zeros, or a
// dot with nothing on one side. All other digits stay.
func appendNumber(dst, cell []byte) ([]byte, bool) {
	rest := cell
	if rest[0] == '+' || rest[0] == '-' {
		if rest[0] == '-' {
			dst = append(dst, '-')
		}
		rest = rest[1:]
	}
	whole, rest := leading(rest)
	var fraction []byte
	if len(rest) > 0 && rest[0] == '.' {
		fraction, rest = leading(rest[1:])
	}
	if len(whole)+len(fraction) == 0 {
		return dst, false
	}
	if whole = bytes.TrimLeft(whole, "0"); len(whole) == 0 {
		whole = zero
	}
	dst = append(dst, whole...)
	if len(fraction) > 0 {
		dst = append(append(dst, '.'), fraction...)
	}
	if len(rest) == 0 {
		return dst, true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return dst, false
	}
	dst, rest = append(dst, 'e'), rest[1:]
	if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
		dst, rest = append(dst, rest[0]), rest[1:]
	}
	power, rest := leading(rest)
	return append(dst, power...), len(power) > 0 && len(rest) == 0
}

var zero = []byte("0")

// leading cuts off the digits at the front.
func leading(b []byte) (digits, rest []byte) {
	i := 0
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return b[:i], b[i:]
}

// trim removes white space and control characters, as the producers of these files do.
func trim(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] <= ' ' {
		b = b[:len(b)-1]
	}
	return b
}
