package page

import (
	"strings"
	"testing"
	"time"
)

// TestATableEscapesWhatItIsGiven writes hostile text in every way that a cell has.
func TestATableEscapesWhatItIsGiven(t *testing.T) {
	const hostile = `"'><script>alert(1)</script>&`
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	v := &Visit{At: at.Add(time.Minute), Zone: time.UTC}
	type row struct{ text string }
	columns := []Column[row]{
		{Name: hostile, Head: true, Look: "id", Cell: func(c *Cell, r *row) { c.Link(Address("queues", r.text), r.text, r.text) }},
		{Name: "a", Look: hostile, Cell: func(c *Cell, r *row) { c.Text(r.text) }},
		{Name: "b", Cell: func(c *Cell, r *row) { c.Soft(r.text); c.Off(r.text); c.Below(r.text, r.text) }},
		{Name: "c", Cell: func(c *Cell, r *row) { c.Ask(Prefix+r.text, r.text, r.text) }},
		{Name: "d", Cell: func(c *Cell, r *row) { c.Choose(r.text, r.text, r.text) }},
		{Name: "e", Cell: func(c *Cell, r *row) {
			c.State(r.text)
			c.LinkState(Prefix+r.text, r.text)
			c.Count(r.text)
			c.When(at)
		}},
	}
	table := Table[row]{Caption: hostile, Columns: columns}
	got := string(table.HTML(v, []row{{hostile}}))
	if strings.Contains(got, "<script") || strings.Contains(got, `"'>`) || strings.Contains(strings.ReplaceAll(got, "&amp;", ""), "&<") {
		t.Errorf("hostile text is a part of the page: %s", got)
	}
	if n := strings.Count(got, "&lt;script&gt;"); n < 19 { // 2 above, 17 in cells; a count has its digits in groups
		t.Errorf("hostile text is there %d times, want each: %s", n, got)
	}
}

// TestATableHoldsWhatListsPromise looks at what style and script count on.
func TestATableHoldsWhatListsPromise(t *testing.T) {
	v := &Visit{At: time.Now(), Zone: time.UTC}
	table := Table[int]{Caption: "Things", Columns: []Column[int]{
		{Name: "Choose", Mute: true, Look: "tick", Cell: func(c *Cell, n *int) { c.Choose("id", "1", "it") }},
		{Name: "Thing", Head: true, Cell: func(c *Cell, n *int) { c.Link("https://elsewhere.test/", "it") }},
		{Name: "Waiting", Look: Numbers, Cell: func(c *Cell, n *int) { c.Count(*n) }},
		{Name: "Oldest", Cell: func(c *Cell, n *int) { c.When(time.Time{}) }},
		{Name: "Cause", Look: "cause wide", Cell: func(c *Cell, n *int) { c.Text(strings.Repeat("x", 1000)) }},
	}}
	got := string(table.HTML(v, []int{0, 12345}))
	for _, want := range []string{
		`<caption class="off">Things</caption>`, `<th scope="col" class="tick"><span class="off">Choose</span></th><th scope="col">Thing</th><th scope="col" class="n">Waiting</th>`,
		`<td class="tick"><input type="checkbox" name="id" value="1" aria-label="Choose it"></td>`,
		`<th scope="row">it</th>`, // no link leads elsewhere
		`<td class="n zero" data-label="Waiting">0</td>`, `<td class="n" data-label="Waiting">12,345</td>`,
		`<td data-label="Oldest"><span class="soft">–</span></td>`, `<td class="cause wide">` + strings.Repeat("x", cutAt) + `…</td>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in %s", want, got)
		}
	}
}

// TestALongTableCostsLittle counts allocations, which do not depend on the machine: a list of a hundred
// rows is loaded each second by everybody who looks at it.
func TestALongTableCostsLittle(t *testing.T) {
	v := &Visit{At: time.Now(), Zone: time.UTC}
	table := Table[int]{Caption: "Things", Columns: []Column[int]{
		{Name: "Thing", Head: true, Cell: func(c *Cell, n *int) { c.Link("/console/queues/one", "it") }},
		{Name: "State", Cell: func(c *Cell, n *int) { c.State("running") }},
		{Name: "Waiting", Look: Numbers, Cell: func(c *Cell, n *int) { c.Count(*n) }},
	}}
	rows := make([]int, 1000)
	if n := testing.AllocsPerRun(10, func() { table.HTML(v, rows) }); n > 3000 {
		t.Errorf("a row of three cells takes %.1f allocations, want 3 at most", n/1000)
	}
}
