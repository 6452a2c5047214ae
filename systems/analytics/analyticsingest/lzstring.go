package analyticsingest

import (
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	errLZ      = errors.New("no lz-string data")
	errLZLimit = errors.New("lz-string data stands for too much")
)

// unLZ appends to out what lz-string compressed into bits, the bytes that its base64
// stands for. The text is UTF-16 to lz-string and UTF-8 here; halves of a pair become
// U+FFFD. At most limit bytes come out.
//
// The format is LZ78 over UTF-16 units, its codes written least significant bit first
// and filled into the bytes from the top. Codes have as many bits as the dictionary
// needs, from 2 on. Code 0 announces a new unit of 8 bits, 1 one of 16, 2 is the end.
func unLZ(out, bits []byte, limit int) ([]byte, error) {
	if len(bits) == 0 {
		return out, nil
	}
	d := lzDecoder{bits: bits, words: make([]lzWord, 3, 256)}
	start := len(out)
	// The dictionary holds each entry as the place in text where it was last written, so
	// an entry costs two numbers; there are at most two for each code read.
	var text []uint16
	width, room := 2, 0 // bits of a code, and how many more entries fit into them
	grow := func() {
		if room--; room == 0 {
			room, width = 1<<width, width+1
		}
	}
	var last lzWord
	for first := true; ; first = false {
		code, ok := d.read(width)
		if !ok {
			return out, errLZ
		}
		var word lzWord
		switch {
		case code == 2:
			return lzUTF8(out, text, start+limit)
		case code < 2:
			unit, ok := d.read(8 << code)
			if !ok {
				return out, errLZ
			}
			text = append(text, uint16(unit))
			word = lzWord{len(text) - 1, 1}
			d.words = append(d.words, word)
			if !first {
				grow()
			}
		case first:
			return out, errLZ
		case code < len(d.words):
			word = lzWord{len(text), d.words[code].n}
			from := d.words[code].at
			text = append(text, text[from:from+word.n]...)
		case code == len(d.words): // the word that is about to be made
			word = lzWord{len(text), last.n + 1}
			text = append(text, text[last.at:last.at+last.n]...)
			text = append(text, text[last.at])
		default:
			return out, errLZ
		}
		if len(text) > limit {
			return out, errLZLimit
		}
		if first {
			width, room = 3, 4
		} else { // last, with the first unit of word
			d.words = append(d.words, lzWord{last.at, last.n + 1})
			grow()
		}
		last = word
	}
}

// lzWord is an entry of the dictionary: where in the text it stands.
type lzWord struct{ at, n int }

type lzDecoder struct {
	bits  []byte
	at    int // next bit
	words []lzWord
}

// read takes a number of n bits; false: the data ended early.
func (d *lzDecoder) read(n int) (v int, ok bool) {
	if d.at+n > 8*len(d.bits) {
		return 0, false
	}
	for i := range n {
		if d.bits[d.at>>3]&(0x80>>(d.at&7)) != 0 {
			v |= 1 << i
		}
		d.at++
	}
	return v, true
}

// lzUTF8 appends UTF-16 as UTF-8, up to limit bytes in all.
func lzUTF8(out []byte, text []uint16, limit int) ([]byte, error) {
	for i := 0; i < len(text); i++ {
		r := rune(text[i])
		if utf16.IsSurrogate(r) {
			low := rune(utf8.RuneError)
			if i+1 < len(text) {
				low = rune(text[i+1])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				i++
			}
		}
		if out = utf8.AppendRune(out, r); len(out) > limit {
			return out, errLZLimit
		}
	}
	return out, nil
}
