// Package jsonspan finds where a text, an object or an array of JSON ends, by its quotes and
// brackets alone, without checking what is between them. Use it to cut values out of a body
// byte for byte, if they are checked anyway.
package jsonspan

import "bytes"

// Text returns the end of the text whose quote is at b[at]: the index behind its other quote.
// If there is none, whole is false and the end is that of b.
func Text(b []byte, at int) (end int, whole bool) {
	for i := at + 1; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b), false
		}
		// A quote behind an odd number of backslashes belongs to the text.
		i += n + 1
		slashes := 0
		for b[i-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i, true
		}
	}
}

// Nested returns the end of the object or array whose bracket is at b[at]: the index behind the
// bracket that closes it, of either kind. If there is none, whole is false and the end is that
// of b.
func Nested(b []byte, at int) (end int, whole bool) {
	depth := 0
	for i := at; i < len(b); {
		switch b[i] {
		case '"':
			i, _ = Text(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if i++; depth == 0 {
			return i, true
		}
	}
	return len(b), false
}
