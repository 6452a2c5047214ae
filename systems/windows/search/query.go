package search

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
)

// Limits of a query.
const (
	maxText    = 4096 // bytes
	maxClauses = 64
	MaxRanges  = 8 // of the clauses, spans of time included
)

// Any is the Field of a clause about the words of any field.
const Any = -1

// Clause is one condition. All clauses of a query have to hold.
type Clause struct {
	Not   bool
	Field int      // in Schema.Fields, or Any
	Words []string // one behind the other in one Text field
	Text  string   // the text that Words were cut from
	Sub   bool     // Equal asks for the keyword beside a Text
	Equal string   // the whole value, as Field.Term writes it, where Words is nil and Range not set
	Range bool     // Low and High say which values
	Low   Bound
	High  Bound
}

// Bound is one end of a range of integers, times in milliseconds, or doubles.
type Bound struct {
	Set   bool // false: the range is open at this end
	Open  bool // the bound itself is not in the range
	Int   int64
	Float float64
}

// Parse reads the query language. All conditions have to hold:
//
//	protest              a word in any text field
//	"human rights"       words one behind the other in one text field
//	actor1Name:"united states"     the same in one field
//	actor1Name.keyword:"UNITED STATES"  the whole value, up to 256 characters
//	eventCode:141        the whole value of a keyword or a number
//	eventDate:2025-03-23 a day; also a month, a year, or an instant 2025-03-23T15:15:00Z
//	eventDate:2025-03-01..2025-03-23    from … to, both included; either may be left out
//	avgTone:<-5          also > >= <=, for numbers and dates
//	-protest -quadClass:4  not so
//
// Words are compared in any case, whole values exactly. The language has no "or" and no places:
// SQLite would have to look at every document. An error is of kind Validation.
func (s *Schema) Parse(text string) ([]Clause, error) {
	if len(text) > maxText {
		return nil, tidemill.Fail(tidemill.Validation, "the query has %d bytes, more than %d", len(text), maxText)
	}
	if !validText(text) {
		return nil, tidemill.Fail(tidemill.Validation, "the query is not UTF-8")
	}
	var clauses []Clause
	ranges := 0
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		at := len(text) - len(rest)
		var c Clause
		var err error
		if c, rest, err = s.clause(rest); err != nil {
			return nil, tidemill.Fail(tidemill.Validation, "the query cannot be understood at byte %d: %w", at, err)
		}
		if c.Range {
			ranges++
		}
		if clauses = append(clauses, c); len(clauses) > maxClauses || ranges >= MaxRanges { // one is left for From and To
			return nil, tidemill.Fail(tidemill.Validation, "the query has more than %d conditions, or more than %d ranges", maxClauses, MaxRanges-1)
		}
	}
	return clauses, nil
}

// clause reads the next one.
func (s *Schema) clause(text string) (c Clause, rest string, err error) {
	rest, c.Not = strings.CutPrefix(text, "-")
	name, after, named := strings.Cut(rest, ":")
	named = named && !strings.ContainsAny(name, " \t\r\n\"")
	if named {
		rest = after
	}
	quoted := strings.HasPrefix(rest, `"`)
	var value string
	if quoted {
		end := strings.IndexByte(rest[1:], '"')
		if end < 0 {
			return c, "", fmt.Errorf(`there is no second " to the first`)
		}
		value, rest = rest[1:1+end], rest[end+2:]
	} else {
		end := strings.IndexAny(rest, " \t\r\n\"")
		if end < 0 {
			end = len(rest)
		}
		value, rest = rest[:end], rest[end:]
	}
	if !named {
		if len(s.Texts()) == 0 {
			return c, "", fmt.Errorf("%s has no text, only fields: ask for field:value", s.Name)
		}
		c.Field = Any
		err = c.words(value)
		return c, rest, err
	}
	field, sub := strings.CutSuffix(name, ".keyword")
	i, ok := s.at[field]
	if !ok || sub && s.Fields[i].Type != Text {
		return c, "", fmt.Errorf("%s has no field %.80q; what has a colon in it is asked for in quotes", s.Name, name)
	}
	c.Field, c.Sub = i, sub
	return c, rest, s.Fields[i].condition(&c, value, quoted)
}

func (c *Clause) words(text string) error {
	if c.Text, c.Words = text, Words(text); len(c.Words) == 0 {
		return fmt.Errorf("%.80q has no word in it", text)
	}
	return nil
}

// condition reads the value behind a field's name.
func (f *Field) condition(c *Clause, value string, quoted bool) error {
	switch {
	case f.Stored:
		return fmt.Errorf("%s is stored and not indexed", f.Name)
	case f.Type == GeoPoint:
		return fmt.Errorf("%s is a place, which cannot be asked for", f.Name)
	case value == "" && !quoted:
		return fmt.Errorf("%s has no value behind the colon", f.Name)
	case f.Type == Text && !c.Sub:
		return c.words(value)
	case f.Type == Text || f.Type == Keyword:
		c.Equal = value
		return nil
	}
	c.Range = true
	for _, o := range []struct {
		sign     string
		low, all bool
	}{{">=", true, true}, {"<=", false, true}, {">", true, false}, {"<", false, false}} {
		operand, ok := strings.CutPrefix(value, o.sign)
		if !ok {
			continue
		}
		low, high, err := f.bound(operand)
		switch {
		case err != nil:
			return err
		case o.low && o.all:
			c.Low = low
		case o.low && f.Type == Date: // behind the whole day
			c.Low = high
			c.Low.Open = !high.Open
		case o.low:
			c.Low = low
			c.Low.Open = true
		case o.all:
			c.High = high
		default:
			c.High = low
			c.High.Open = true
		}
		return nil
	}
	from, to, isRange := strings.Cut(value, "..")
	if !isRange {
		var err error
		if c.Low, c.High, err = f.bound(value); err == nil && f.Type != Date {
			c.Range, c.Equal = false, c.Low.term(f)
		}
		return err
	}
	if from == "" && to == "" {
		return fmt.Errorf("%s has a range without ends", f.Name)
	}
	var err error
	if from != "" {
		if c.Low, _, err = f.bound(from); err != nil {
			return err
		}
	}
	if to != "" {
		_, c.High, err = f.bound(to)
	}
	return err
}

func (b *Bound) term(f *Field) string {
	t, _ := f.Term(Value{Has: true, Int: b.Int, Float: b.Float}, false)
	return t
}

// bound reads one value, which for dates is from low to high.
func (f *Field) bound(text string) (low, high Bound, err error) {
	low.Set, high.Set = true, true
	switch f.Type {
	case Double:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return low, high, fmt.Errorf("%.40q is no number, which %s has", text, f.Name)
		}
		low.Float, high.Float = x+0, x+0
	case Date:
		t, end, err := period(text)
		if err != nil {
			return low, high, fmt.Errorf("%.40q is no date, which %s has; write it like 2025-03-23 or 2025-03-23T15:15:00Z", text, f.Name)
		}
		low.Int, high.Int, high.Open = t.UnixMilli(), end.UnixMilli(), !end.Equal(t)
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		if least, most := f.bounds(); err != nil || n < least || n > most {
			return low, high, fmt.Errorf("%.40q is no integer of type %s, which %s has", text, f.Type, f.Name)
		}
		low.Int, high.Int = n, n
	}
	return low, high, nil
}

// period reads a date: end is behind it, or the same where it is an instant.
func period(text string) (from, end time.Time, err error) {
	for _, p := range []struct {
		form                string
		years, months, days int
	}{{"2006", 1, 0, 0}, {"2006-01", 0, 1, 0}, {"2006-01-02", 0, 0, 1}, {time.RFC3339Nano, 0, 0, 0}} {
		if from, err = time.Parse(p.form, text); err == nil {
			return from, from.AddDate(p.years, p.months, p.days), nil
		}
	}
	return from, end, err
}

// Plan checks a query and returns its conditions, including those of From and To.
func (q *Query) Plan(s *Schema) ([]Clause, error) {
	if q.Size < 0 || q.Size > MaxSize {
		return nil, tidemill.Fail(tidemill.Validation, "a page of %d hits: want 1 to %d, or 0 for 20", q.Size, MaxSize)
	}
	if q.After != "" && q.Before != "" {
		return nil, tidemill.Fail(tidemill.Validation, "a page is after another one or before it: leave After or Before out")
	}
	clauses, err := s.Parse(q.Text)
	if err != nil {
		return nil, err
	}
	span := Clause{Field: s.time, Range: true}
	if !q.From.IsZero() {
		span.Low = Bound{Set: true, Int: q.From.UnixMilli()}
	}
	if !q.To.IsZero() {
		span.High = Bound{Set: true, Open: true, Int: q.To.UnixMilli()}
	}
	if span.Low.Set || span.High.Set {
		clauses = append(clauses, span)
	}
	return clauses, nil
}

// Hits is the size of a page.
func (q *Query) Hits() int {
	if q.Size == 0 {
		return 20
	}
	return q.Size
}

// Closed is a range of integers or times as two ends that are both included.
func (c *Clause) Closed() (low, high int64) {
	low, high = math.MinInt64, math.MaxInt64
	if c.Low.Set {
		if low = c.Low.Int; c.Low.Open && low < math.MaxInt64 {
			low++
		} else if c.Low.Open {
			return 1, 0
		}
	}
	if c.High.Set {
		if high = c.High.Int; c.High.Open && high > math.MinInt64 {
			high--
		} else if c.High.Open {
			return 1, 0
		}
	}
	return low, high
}

// ClosedFloat is Closed for doubles.
func (c *Clause) ClosedFloat() (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	if c.Low.Set {
		if low = c.Low.Float; c.Low.Open {
			low = math.Nextafter(low, math.Inf(1))
		}
	}
	if c.High.Set {
		if high = c.High.Float; c.High.Open {
			high = math.Nextafter(high, math.Inf(-1))
		}
	}
	return low, high
}

// Match says whether a document's values fulfil a condition.
func (c *Clause) Match(s *Schema, values []Value) bool { return c.holds(s, values) != c.Not }

func (c *Clause) holds(s *Schema, values []Value) bool {
	switch {
	case c.Words != nil && c.Field == Any:
		return slices.ContainsFunc(s.Texts(), func(i int) bool { return follows(Words(values[i].Text), c.Words) })
	case c.Words != nil:
		return follows(Words(values[c.Field].Text), c.Words)
	}
	v, f := values[c.Field], &s.Fields[c.Field]
	if !c.Range {
		term, ok := f.Term(v, c.Sub)
		return ok && term == c.Equal
	}
	return v.Has && (!c.Low.Set || c.Low.compare(f, v) >= b2i(c.Low.Open)) && (!c.High.Set || c.High.compare(f, v) <= -b2i(c.High.Open))
}

// compare is above zero if v is above the bound.
func (b *Bound) compare(f *Field, v Value) int {
	switch {
	case f.Type == Double && v.Float != b.Float:
		return 1 - 2*b2i(v.Float < b.Float)
	case f.Type != Double && v.Int != b.Int:
		return 1 - 2*b2i(v.Int < b.Int)
	}
	return 0
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// follows reports whether the words of a phrase are adjacent in a text.
func follows(text, phrase []string) bool {
	for i := 0; i+len(phrase) <= len(text); i++ {
		if slices.Equal(text[i:i+len(phrase)], phrase) {
			return true
		}
	}
	return false
}
