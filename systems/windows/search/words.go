package search

import (
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// wordUnits is where the servers cut a longer word.
const wordUnits = 255

// Words cuts a text as the servers' standard analyzer does: at the word boundaries of
// Unicode (UAX #29), in lower case, punctuation left out.
func Words(text string) (words []string) {
	state, open := -1, false // open: the last word is of a script without spaces, and goes on
	for len(text) > 0 {
		var word string
		word, text, state = uniseg.FirstWordInString(text, state)
		if !counts(word) {
			open = false
			continue
		}
		word = strings.Map(unicode.ToLower, word)
		first := []rune(word)[0]
		if unicode.In(first, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
			if open {
				words[len(words)-1] += word
			} else {
				words, open = append(words, word), true
			}
			continue
		}
		open = false
		for r := []rune(word); len(r) > 0; r = r[min(len(r), wordUnits):] {
			words = append(words, string(r[:min(len(r), wordUnits)]))
		}
	}
	return words
}

// counts reports whether a segment is a word: it has a letter, a digit or a pictograph.
func counts(segment string) bool {
	return strings.ContainsFunc(segment, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.In(r, unicode.Nd, unicode.Nl) || r >= 0x1F000 && unicode.Is(unicode.So, r)
	})
}
