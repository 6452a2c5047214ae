package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// screen is what people read: whatever a command prints goes through one, so that text from
// outside neither steers the terminal nor looks like other text. Lines and tabs are kept, what
// cannot be seen is written as an escape (shownRune). It may be used by many.
type screen struct {
	to   io.Writer
	show func(rune) string

	mu   sync.Mutex // guards what follows; held for one write
	held []byte     // the beginning of a character
}

// onScreen is a screen on w, unless that is one.
func onScreen(w io.Writer) io.Writer {
	if _, is := w.(*screen); is || w == nil {
		return w
	}
	return &screen{to: w, show: shownRune}
}

// under is what a screen writes to, or w itself.
func under(w any) any {
	if s, is := w.(*screen); is {
		return s.to
	}
	return w
}

// asBytes is where bytes are written for other programs: a terminal stays a screen.
func asBytes(w io.Writer) io.Writer {
	if s, is := w.(*screen); is && !terminal(s) {
		return s.to
	}
	return w
}

// asJSON is where JSON is written: on a terminal what cannot be seen is escaped as JSON does,
// which means the same; other programs get it as it is.
func asJSON(w io.Writer) io.Writer {
	if s, is := asBytes(w).(*screen); is {
		return &screen{to: s.to, show: jsonRune}
	}
	return asBytes(w)
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := p
	if len(s.held) > 0 {
		text = append(s.held, p...)
		s.held = nil
	}
	if n := begun(text); n > 0 {
		s.held = bytes.Clone(text[len(text)-n:])
		text = text[:len(text)-n]
	}
	if _, err := s.to.Write(s.clean(text)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *screen) clean(text []byte) []byte {
	dirty := func(r rune) bool { return r == utf8.RuneError || s.hides(r) }
	if !bytes.ContainsFunc(text, dirty) {
		return text
	}
	return []byte(escaped(string(text), s.hides, s.show))
}

// hides says whether a character is shown as an escape: lines and tabs are not.
func (s *screen) hides(r rune) bool { return r != '\n' && r != '\t' && unseen(r) }

// begun is how many bytes at the end are the beginning of a character.
func begun(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// unseen says whether a character would not be seen where it stands: controls, formats (marks of
// direction, joiners, tags), separators of lines and paragraphs, and others that are drawn as
// nothing. Combining marks are seen, and so is what chooses between an emoji and its text.
func unseen(r rune) bool {
	switch {
	case r < 0x7f:
		return r < ' '
	case r == '\uFE0E', r == '\uFE0F':
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// shownRune is how people see what cannot be seen.
func shownRune(r rune) string { return fmt.Sprintf("<U+%04X>", r) }

// jsonRune is the same in JSON.
func jsonRune(r rune) string {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// printable shows text from outside in one line: lines and tabs are escaped too. What prints in
// columns needs it, to know how wide they are.
func printable(s string) string {
	if !strings.ContainsFunc(s, unseen) && utf8.ValidString(s) {
		return s
	}
	return escaped(s, unseen, shownRune)
}

// escaped shows the characters that are hidden in another way. Bytes that are no text become
// U+FFFD.
func escaped(s string, hidden func(rune) bool, show func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			b.WriteString(show(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// printableLines is printable for text of several lines.
func printableLines(s string) string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n")
	for i, line := range lines {
		lines[i] = printable(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

func short(s string, n int) string {
	return cut(printable(s), n)
}
