package operation

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Covers says whether something of a payload is covered in an answer that has it, for the caller of a
// context.
func Covers(ctx context.Context, answer InSystem, payload []byte) bool {
	found := false
	inCovered(ctx, answer, payload, func(v jsontext.Value) {
		shown, err := blank(v)
		found = found || err != nil || string(shown) != string(v)
	})
	return found
}

// CoveredStays refuses a new payload of what an answer shows, where it has the text that stands for
// what is covered, in place of what its caller was not shown.
func CoveredStays(ctx context.Context, answer InSystem, payload []byte) error {
	mark := ""
	inCovered(ctx, answer, payload, func(v jsontext.Value) {
		if mark == "" {
			mark = markIn(v)
		}
	})
	if mark == "" {
		return nil
	}
	return Refuse(http.StatusUnprocessableEntity, "the new payload has %q where its value is covered for you: nothing is changed. Send the real value there", mark)
}

// inCovered calls do with each value of a payload that is covered. A text is covered whole, or inside
// where it is JSON.
func inCovered(ctx context.Context, answer InSystem, payload []byte, do func(jsontext.Value)) {
	c := coverOf(ctx).over(answer)
	if c == nil {
		return
	}
	paths := c.paths[hidden.tag]
	if c.all {
		paths = [][]string{nil}
	}
	look := func(v jsontext.Value) (jsontext.Value, error) { do(v); return v, nil }
	for _, path := range paths {
		_, _ = inText(quote(string(payload)), func(v jsontext.Value) (jsontext.Value, error) { return at(v, path, look) }) // no JSON: it is a text
	}
}

// markIn is the first text in a value that stands for what is covered; empty: there is none.
func markIn(v jsontext.Value) (mark string) {
	if v.Kind() == '"' {
		var text string
		_ = json.Unmarshal(v, &text) // it is valid, but for UTF-8
		text = strings.Trim(text, "\"\r\n\t ")
		if slices.Contains([]string{coveredText, coveredNumber, coveredTruth}, text) {
			return text
		}
		return ""
	}
	_, _ = eachOf(v, func(_ string, _ members, one jsontext.Value) (jsontext.Value, error) {
		if mark == "" {
			mark = markIn(one)
		}
		return one, nil
	})
	return mark
}
