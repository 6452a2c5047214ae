package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Text is the explanation as text for people. What would steer a terminal is written as an escape.
func (e *Explanation) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s  %s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	line(e.Kind, "%s", e.ID)
	line("system", "%s", e.System)
	if e.Owner != "" {
		line("owner", "%s", e.Owner)
	}
	if e.Type != "" {
		line("type", "%s", e.Type)
	}
	line(strings.ReplaceAll(e.Fate, "_", " "), "%s", e.Summary)
	if len(e.Steps) > 0 {
		b.WriteByte('\n')
	}
	for i := range e.Steps {
		e.Steps[i].text(&b, e.ID)
	}
	e.rest(&b)
	return b.String()
}

// rest are what comes next, and what is not known.
func (e *Explanation) rest(b *strings.Builder) {
	part := func(name string, lines []string) {
		for i, text := range lines {
			if i == 0 {
				fmt.Fprintf(b, "\n%s\n", name)
			}
			fmt.Fprintf(b, "  %s\n", printable(text))
		}
	}
	part("next", e.Next)
	part("not known", e.Unknown)
	var failed []string
	for _, f := range e.Failed {
		failed = append(failed, f.Where+": "+f.Why)
	}
	part("could not be asked", failed)
}

func (s *Step) text(b *strings.Builder, of string) {
	at, after := "now", ""
	if s.At != nil {
		at = s.At.UTC().Format(time.RFC3339)
	}
	if s.After != nil {
		after = "+" + roughly(time.Duration(*s.After*float64(time.Second)))
	}
	fmt.Fprintf(b, "%-20s  %-9s  %s: %s\n", at, after, printable(s.Where), printable(s.Text))
	for _, h := range s.Related {
		if h.ID == of { // who reads it has that id
			continue
		}
		fmt.Fprintf(b, "%33s%s %s\n", "", strings.ReplaceAll(h.Kind, "_", " "), printable(h.ID))
	}
}

// roughly is a duration as people say it.
func roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// printable writes what is no printable character as an escape, so that every text is one line.
func printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
