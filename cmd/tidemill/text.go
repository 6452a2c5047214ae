package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table prints rows in columns. A long one is laid out and printed block by block.
type table struct {
	out  io.Writer
	head string // column names, with tabs between
	none string // what is said instead of a table without rows
	w    *tabwriter.Writer
	rows int
}

// block is how many rows of a table are laid out together.
const block = 200

func (t *table) row(cells ...string) error {
	if t.rows == 0 {
		t.w = tabwriter.NewWriter(t.out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintln(t.w, t.head)
	}
	t.rows++
	_, err := fmt.Fprintln(t.w, strings.Join(cells, "\t"))
	if err == nil && t.rows%block == 0 {
		err = t.w.Flush()
	}
	return err
}

// end prints what is left, and returns what ended the listing too early, if anything did.
func (t *table) end(failed error) error {
	switch {
	case t.rows > 0:
		return errors.Join(t.w.Flush(), failed)
	case failed != nil: // nobody knows whether there is none
		return failed
	}
	_, err := fmt.Fprintln(t.out, t.none)
	return err
}

// count writes a number and what it counts.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// query makes URL values of pairs, leaving out empty ones.
func query(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// printable shows text from outside without letting it steer the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

func short(s string, n int) string {
	s = printable(s)
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
