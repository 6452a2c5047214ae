package page

import (
	"html/template"
	"strings"
)

// Lists are tables that Go writes and not a template: a template calls each value's function and
// escapes it by reflection, thirty calls a row, which was most of what a page of a hundred rows cost.
// This file alone marks text as HTML; everything in it that is not a constant goes through escape.

// Table is a list with a column for each thing that its rows tell.
type Table[T any] struct {
	Caption string // is read out
	Columns []Column[T]
}

// Column is one of a table.
type Column[T any] struct {
	Name string // above it, and beside its cells where rows are cards
	Look string // class of its cells
	Head bool   // its cells name their rows
	Mute bool   // its name is read out only
	Cell func(c *Cell, of *T)
}

// Numbers is the look of a column of numbers.
const Numbers = "n"

// HTML is the table with these rows, on a page.
func (t *Table[T]) HTML(v *Visit, rows []T) template.HTML {
	shapes := make([]shape, len(t.Columns))
	for i, c := range t.Columns {
		shapes[i] = shape{c.Name, c.Look, c.Head, c.Mute}
	}
	return draw(v, t.Caption, shapes, len(rows), func(c *Cell, row, column int) { t.Columns[column].Cell(c, &rows[row]) })
}

// shape is a column whatever its rows are: what follows is compiled once, and not for each type.
type shape struct {
	name, look string
	head, mute bool
}

// bare says that the cells of a column stand without its name where rows are cards.
func (s *shape) bare() bool {
	return s.head || s.look == "tick" || s.look == "acts" || strings.Contains(s.look, "wide")
}

// draw writes a table, with what fill writes into each cell.
func draw(v *Visit, caption string, columns []shape, rows int, fill func(c *Cell, row, column int)) template.HTML {
	c, cell := &Cell{v: v, html: make([]byte, 0, 512*(rows+2))}, &Cell{v: v}
	c.above(caption, columns)
	for row := range rows {
		c.write("\n<tr>")
		for i := range columns {
			cell.html, cell.zero = cell.html[:0], false
			fill(cell, row, i)
			c.cell(&columns[i], cell)
		}
		c.write(`</tr>`)
	}
	c.write(`</tbody></table></div>`)
	return template.HTML(c.html)
}

// above writes what is above the rows.
func (c *Cell) above(caption string, columns []shape) {
	c.write(`<div class="scroll"><table class="cards"><caption class="off">`)
	c.escape(caption)
	c.write(`</caption><thead><tr>`)
	for _, s := range columns {
		c.write(`<th scope="col"`)
		if s.look == Numbers || s.look == "tick" {
			c.attribute("class", s.look)
		}
		c.write(`>`)
		if s.mute {
			c.Off(s.name)
		} else {
			c.escape(s.name)
		}
		c.write(`</th>`)
	}
	c.write(`</tr></thead><tbody>`)
}

// cell writes a cell that was filled.
func (c *Cell) cell(s *shape, filled *Cell) {
	begin, end, look := `<td`, `</td>`, s.look
	if s.head {
		begin, end = `<th scope="row"`, `</th>`
	}
	if filled.zero {
		look += " zero"
	}
	c.write(begin)
	if look != "" {
		c.attribute("class", look)
	}
	if !s.bare() {
		c.attribute("data-label", s.name)
	}
	c.write(`>`)
	c.html = append(append(c.html, filled.html...), end...)
}

// Cell is what is written of one cell.
type Cell struct {
	v    *Visit
	html []byte
	zero bool // it is a number that is none, and faint
}

func (c *Cell) write(html string) { c.html = append(c.html, html...) }

// escape writes text.
func (c *Cell) escape(text string) {
	if strings.ContainsAny(text, "\x00&'<>\"") {
		text = template.HTMLEscapeString(text)
	}
	c.html = append(c.html, text...)
}

func (c *Cell) attribute(name, value string) {
	c.write(" ")
	c.write(name)
	c.write(`="`)
	c.escape(value)
	c.write(`"`)
}

func (c *Cell) span(class, text string) {
	c.write(`<span`)
	c.attribute("class", class)
	c.write(`>`)
	c.escape(text)
	c.write(`</span>`)
}

// Text is as much of a text as lists show.
func (c *Cell) Text(text string) { c.escape(Cut(text)) }

// Soft is text that says little.
func (c *Cell) Soft(text string) { c.span("soft", text) }

// Off is text that is read out only.
func (c *Cell) Off(text string) { c.span("off", text) }

// ID is an id, as much of it as lists show, with a button that copies all of it; empty: there is none.
func (c *Cell) ID(id string) {
	c.Text(id)
	c.copy(id)
}

// LinkID is the same, and leads to a page of the console.
func (c *Cell) LinkID(to, id string) {
	c.Link(to, id)
	c.copy(id)
}

// copy is a button that copies a text; empty: there is none.
func (c *Cell) copy(text string) {
	if text == "" {
		return
	}
	c.write(` <button type="button" class="copy one script"`)
	c.attribute("data-text", text)
	c.attribute("aria-label", "Copy "+Cut(text))
	c.write(`></button>`)
}

// Below is a small line under the others; empty: there is none. Its class says more of how it looks.
func (c *Cell) Below(text, class string) {
	if text == "" {
		return
	}
	c.write(`<div`)
	c.attribute("class", strings.TrimSpace("soft small "+class))
	c.write(`>`)
	c.Text(text)
	c.write(`</div>`)
}

// Link is text that leads to a page of the console, with what is read out only after it. An address
// elsewhere is no link.
func (c *Cell) Link(to, text string, off ...string) { c.link(to, "", text, off) }

// LinkState is a state that leads to a page of the console.
func (c *Cell) LinkState(to, s string) {
	inside := c.begin(to, "")
	c.State(s)
	c.end(inside)
}

// Ask is a button that leads to a page which asks whether to do something.
func (c *Cell) Ask(to, text string, off ...string) { c.link(to, ` class="btn" data-asks`, text, off) }

func (c *Cell) link(to, more, text string, off []string) {
	inside := c.begin(to, more)
	c.Text(text)
	for _, s := range off {
		c.Off(s)
	}
	c.end(inside)
}

// begin begins a link, if it leads to a page of the console.
func (c *Cell) begin(to, more string) bool {
	inside := strings.HasPrefix(to, Prefix)
	if inside {
		c.write(`<a`)
		c.write(more)
		c.attribute("href", to)
		c.write(`>`)
	}
	return inside
}

func (c *Cell) end(inside bool) {
	if inside {
		c.write(`</a>`)
	}
}

// Choose is a box by which a row is chosen.
func (c *Cell) Choose(name, value, what string) {
	c.write(`<input type="checkbox"`)
	c.attribute("name", name)
	c.attribute("value", value)
	c.attribute("aria-label", "Choose "+Cut(what))
	c.write(`>`)
}

// Count is a number. None is faint.
func (c *Cell) Count(n any) {
	s := Number(n)
	c.zero = s == "0"
	c.escape(s)
}

// State is the state of something: a word with its mark.
func (c *Cell) State(s string) { c.span("st "+tone(s), s) }

// When is a time: how far away, and where.
func (c *Cell) When(t any) {
	m := c.v.When(t)
	if m == nil {
		c.Soft("–")
		return
	}
	c.write(`<time`)
	c.attribute("datetime", m.ISO)
	c.write(`>`)
	c.escape(m.Ago)
	c.write(` `)
	c.span("at", m.At)
	c.write(`</time>`)
}

// when is a time in a template.
func when(v *View, t any) template.HTML {
	c := Cell{v: v.Visit}
	c.When(t)
	return template.HTML(c.html)
}

// state is the state of something in a template.
func state(s string) template.HTML {
	var c Cell
	c.State(s)
	return template.HTML(c.html)
}

// copies is a button in a template that copies a text; empty: there is none.
func copies(text string) template.HTML {
	var c Cell
	c.copy(text)
	return template.HTML(c.html)
}

// command is a line for a shell in a template, with a button that copies it.
func command(words ...string) template.HTML {
	var c Cell
	line := Command(words...)
	c.write(`<code>`)
	c.escape(line)
	c.write(`</code>`)
	c.copy(line)
	return template.HTML(c.html)
}

// copied is an id in a template, with a button that copies it.
func copied(id string) template.HTML {
	var c Cell
	c.ID(id)
	return template.HTML(c.html)
}
