package command

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

// Screen is what people read: whatever a command prints goes through one, so that text from
// outside neither steers the terminal nor looks like other text. Lines and tabs are kept, what
// cannot be seen is written as an escape (shownRune). It may be used by many.
type Screen struct {
	To   io.Writer
	Show func(rune) string

	mu   sync.Mutex // guards what follows; held for one write
	held []byte     // the beginning of a character
}

// OnScreen is a screen on w, unless that is one.
func OnScreen(w io.Writer) io.Writer {
	if _, is := w.(*Screen); is || w == nil {
		return w
	}
	return &Screen{To: w, Show: shownRune}
}

// Under is what a screen writes to, or w itself.
func Under(w any) any {
	if s, is := w.(*Screen); is {
		return s.To
	}
	return w
}

// AsBytes is where bytes are written for other programs: a terminal stays a screen.
func AsBytes(w io.Writer) io.Writer {
	if s, is := w.(*Screen); is && !Terminal(s) {
		return s.To
	}
	return w
}

// AsJSON is where JSON is written: on a terminal what cannot be seen is escaped as JSON does,
// which means the same; other programs get it as it is.
func AsJSON(w io.Writer) io.Writer {
	if s, is := AsBytes(w).(*Screen); is {
		return &Screen{To: s.To, Show: JsonRune}
	}
	return AsBytes(w)
}

// Write implements io.Writer.
func (s *Screen) Write(p []byte) (int, error) {
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
	if _, err := s.To.Write(s.clean(text)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *Screen) clean(text []byte) []byte {
	dirty := func(r rune) bool { return r == utf8.RuneError || s.hides(r) }
	if !bytes.ContainsFunc(text, dirty) {
		return text
	}
	return []byte(escaped(string(text), s.hides, s.Show))
}

// hides says whether a character is shown as an escape: lines and tabs are not.
func (s *Screen) hides(r rune) bool { return r != '\n' && r != '\t' && Unseen(r) }

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

// Unseen says whether a character would not be seen where it stands: controls, formats (marks of
// direction, joiners, tags), separators of lines and paragraphs, and others that are drawn as
// nothing. Combining marks are seen, and so is what chooses between an emoji and its text.
func Unseen(r rune) bool {
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

// JsonRune is the same in JSON.
func JsonRune(r rune) string {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Printable shows text from outside in one line: lines and tabs are escaped too. What prints in
// columns needs it, to know how wide they are.
func Printable(s string) string {
	if !strings.ContainsFunc(s, Unseen) && utf8.ValidString(s) {
		return s
	}
	return escaped(s, Unseen, shownRune)
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

// PrintableLines is printable for text of several lines.
func PrintableLines(s string) string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n")
	for i, line := range lines {
		lines[i] = Printable(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// Short is a text that is safe to print, cut to so many characters.
func Short(s string, n int) string {
	return cut(Printable(s), n)
}
