// Package jsonspan finds where a text, an object or an array of JSON ends, by its quotes and
// brackets alone: what is between them is for others to judge. Use it where values are cut
// out of a body byte for byte, and what is cut out is checked anyway.
package jsonspan

import "bytes"

// Text returns where the text ends whose quote is at b[at]: the index behind its other
// quote. whole is false, and the end that of b, where there is none.
func Text(b []byte, at int) (end int, whole bool) {
	for i := at + 1; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b), false
		}
		// A quote behind an odd number of backslashes is one of the text.
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

// Nested returns where the object or array ends whose bracket is at b[at]: the index behind
// the bracket that closes it, of either kind. whole is false, and the end that of b, where
// there is none.
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
