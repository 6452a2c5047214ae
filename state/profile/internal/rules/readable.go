package rules

import (
	"bytes"
	"strconv"
)

// replaced is what stands for a character that PostgreSQL cannot read: U+FFFD.
const replaced = `\ufffd`

// readable turns a JSON object, in place, into one that PostgreSQL's operators can read:
// escapes of NUL and halves of surrogate pairs, which JSON allows and a text there cannot
// hold, would fail every query that meets them. The truth is in the registers.
func readable(object []byte) []byte {
	for i := 0; ; {
		at := bytes.IndexByte(object[i:], '\\') // backslashes are in strings only
		if at < 0 {
			return object
		}
		i += at
		switch c := escaped(object[i:]); {
		case c < 0: // an escape of one character
			i += 2
		case c >= 0xd800 && c < 0xdc00 && paired(escaped(object[i+len(replaced):])):
			i += 2 * len(replaced)
		default:
			if c == 0 || c >= 0xd800 && c < 0xe000 {
				copy(object[i:], replaced)
			}
			i += len(replaced)
		}
	}
}

func paired(low int) bool { return low >= 0xdc00 && low < 0xe000 }

// escaped is the number of the escape \uXXXX at the start of b, -1 if b begins otherwise.
func escaped(b []byte) int {
	if len(b) < len(replaced) || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	c, err := strconv.ParseUint(string(b[2:len(replaced)]), 16, 16)
	if err != nil {
		return -1
	}
	return int(c)
}
