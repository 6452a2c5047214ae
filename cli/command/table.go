package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Table prints rows in columns. A long one is laid out and printed block by block. On a terminal
// it is no wider than that: long texts are cut, and where that is not enough each row is printed
// as a list of its values.
type Table struct {
	Out    io.Writer
	Head   string // column names, with tabs between
	None   string // what is said instead of a table without rows; empty: its head
	Indent string
	Live   bool // each row is printed at once

	Width  int // of the terminal; 0: asked for, below 0: any
	rows   int
	held   [][]string // not printed yet
	widths []int      // of the columns, once the first block is laid out
	long   bool       // each row is a list of its values
}

// Block is how many rows of a table are laid out together.
const Block = 200

// Columns are cut to this width at the least, and have so many blanks between them.
const (
	cutTo = 8
	gap   = 2
)

func (t *Table) Row(cells ...string) error {
	t.rows++
	for i := range cells {
		cells[i] = Printable(cells[i])
	}
	t.held = append(t.held, cells)
	if !t.Live && len(t.held) < Block {
		return nil
	}
	return t.flush()
}

// End prints what is left, and returns what ended the listing too early, if anything did.
func (t *Table) End(failed error) error {
	switch {
	case t.rows > 0 || failed == nil && t.None == "":
		return errors.Join(t.flush(), failed)
	case failed != nil: // nobody knows whether there is none
		return failed
	}
	_, err := fmt.Fprintln(t.Out, t.None)
	return err
}

// flush lays the rows out that are held, and prints them.
func (t *Table) flush() error {
	head := strings.Split(t.Head, "\t")
	first := t.widths == nil
	if first || !t.Live {
		t.layOut(head)
	}
	var b strings.Builder
	if first && !t.long {
		t.line(&b, head)
	}
	for n, cells := range t.held {
		if t.long {
			t.list(&b, head, cells, first && n == 0)
		} else {
			t.line(&b, cells)
		}
	}
	t.held = t.held[:0]
	_, err := io.WriteString(t.Out, b.String())
	return err
}

// layOut finds how wide the columns are.
func (t *Table) layOut(head []string) {
	if t.Width == 0 {
		t.Width = widthOf(t.Out)
	}
	widths := make([]int, len(head))
	text := make([]bool, len(head)) // it may be cut
	for i, h := range head {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, cells := range t.held {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
			text[i] = text[i] || strings.Trim(c, "0123456789.-+%") != ""
		}
	}
	for i := range widths {
		if t.Live && text[i] { // rows that nobody has seen yet may need more
			widths[i] = max(widths[i], 2*cutTo)
		}
	}
	for t.Width > 0 && t.total(widths) > t.Width && !t.long {
		widest := -1
		for i, w := range widths {
			if text[i] && w > max(cutTo, utf8.RuneCountInString(head[i])) && (widest < 0 || w >= widths[widest]) {
				widest = i
			}
		}
		if t.long = widest < 0; !t.long {
			widths[widest]--
		}
	}
	t.widths = widths
}

// total is how wide a row is.
func (t *Table) total(widths []int) int {
	sum := len(t.Indent) + gap*(len(widths)-1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// line writes a row in columns.
func (t *Table) line(b *strings.Builder, cells []string) {
	b.WriteString(t.Indent)
	for i, c := range cells {
		if t.Width > 0 {
			c = cut(c, t.widths[i])
		}
		b.WriteString(c)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", gap+max(t.widths[i]-utf8.RuneCountInString(c), 0)))
		}
	}
	b.WriteByte('\n')
}

// list writes a row as its values, a line each.
func (t *Table) list(b *strings.Builder, head, cells []string, first bool) {
	if !first {
		b.WriteByte('\n')
	}
	names := 0
	for _, h := range head {
		names = max(names, utf8.RuneCountInString(h))
	}
	for i, c := range cells {
		fmt.Fprintf(b, "%s%s%s  %s\n", t.Indent, head[i], strings.Repeat(" ", names-utf8.RuneCountInString(head[i])), c)
	}
}

// cut is a text of n characters at most.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// widthOf is how wide a terminal is; -1: it is none.
func widthOf(out io.Writer) int {
	f, ok := Under(out).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return -1
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		return -1
	}
	return width
}
