// Package nearest finds the name that somebody meant who wrote another one.
package nearest

import (
	"fmt"
	"strings"
)

// To is the name that is nearest to a word, the first of several; empty: none is near, as more than
// half of the word would have to change. Upper and lower case are the same.
func To(word string, names []string) string {
	if len(word) > most {
		return ""
	}
	best, least := "", len(word)/2+1
	for _, n := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(n)); d < least {
			best, least = n, d
		}
	}
	return best
}

// Said is that name as the end of a sentence, with a semicolon before it; empty: none is near.
func Said(word string, names []string) string {
	if best := To(word, names); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

// most is how many bytes of a word are compared: the time grows with their square.
const most = 128

// distance is how many letters have to be changed, added, taken away, or swapped with the next one.
func distance(a, b string) int {
	b = b[:min(len(b), most)]
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
