package event

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

// Given is what is known of an event besides its bytes.
type Given struct {
	Version    string // of its schema, where the event does not say; empty: 1.0.0
	Conversion bool   // it is a server-to-server conversion: it may have an order, and no items
}

// Decode reads an event and reports everything that is wrong with it. The error is a
// *tidemill.Error of kind Validation around an *Invalid, and e then holds what could be read.
// Decode neither keeps nor changes raw.
func (r *Rules) Decode(raw []byte, g Given, e *Event) error {
	d := r.decoders.Get().(*decoder)
	defer d.release()
	*e = Event{Conversion: g.Conversion}
	d.e = e
	if bad := d.event(raw, g); bad != nil {
		return &tidemill.Error{Kind: tidemill.Validation, Err: bad}
	}
	return nil
}

// decoder reads one event at a time.
type decoder struct {
	rules *Rules
	in    bytes.Buffer
	json  jsontext.Decoder
	raw   []byte
	e     *Event
	steps []step // the way to the value that is being read

	problems, bought []Problem // bought: those that count only in a purchase
	buying           bool      // a field that only a purchase has is being read
	sold             []span    // those that are present
	more, boughtMore bool
	order            string
	items, url       bool // any item, a URL was read
	scratch          []byte
}

// span is where a member's value lies.
type span struct{ name, value []byte }

// errStop ends the reading of an event when nothing more can be said of it.
var errStop = errors.New("stop")

func (d *decoder) release() {
	if cap(d.scratch) > MaxSize {
		d.scratch = nil
	}
	d.in = bytes.Buffer{}
	d.raw, d.e = nil, nil
	clear(d.steps[:cap(d.steps)])
	d.steps, d.problems, d.bought = d.steps[:0], nil, nil
	d.buying, d.more, d.boughtMore = false, false, false
	clear(d.sold)
	d.sold = d.sold[:0]
	d.order, d.items, d.url = "", false, false
	d.rules.decoders.Put(d)
}

func (d *decoder) event(raw []byte, g Given) *Invalid {
	if len(raw) > MaxSize {
		return &Invalid{Problems: []Problem{{Wrong: "has " + grouped(int64(len(raw))) + " bytes", Allowed: "at most " + grouped(MaxSize) + " bytes"}}}
	}
	d.raw = raw
	d.in = *bytes.NewBuffer(raw)
	d.json.Reset(&d.in)
	err := d.root()
	if err == nil {
		if _, err = d.json.ReadToken(); err == io.EOF {
			err = nil
		} else if err == nil {
			err = errors.New("there is something behind the event")
		}
	}
	switch {
	case err == nil:
		d.finish(g)
	case errors.Is(err, errStop):
	default:
		return &Invalid{Malformed: true, Problems: []Problem{{Wrong: "is no JSON: " + reason(err), Allowed: "one JSON object in UTF-8"}}}
	}
	if len(d.problems) == 0 {
		return nil
	}
	return &Invalid{Problems: d.problems, More: d.more}
}

// reason is the message of a syntax error, without the library's name, and quoting at most one
// character.
func reason(err error) string {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return e.Err.Error() + " near byte " + strconv.FormatInt(e.ByteOffset+1, 10)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

// root reads the whole event.
func (d *decoder) root() error {
	switch k := d.json.PeekKind(); k {
	case '{':
		return d.value(d.rules.event, 1)
	default:
		v, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		d.wrong("is "+describe(v), "an object")
		return nil
	}
}

// finish checks what needs the whole event.
func (d *decoder) finish(g Given) {
	e := d.e
	if e.Version == "" {
		e.Version = "1.0.0"
		if g.Version != "" {
			if !version.fits([]byte(g.Version)) {
				d.note(Problem{"version", "of the header X-Schema-Version is none", version.words})
			} else if !d.takeVersion([]byte(g.Version)) {
				d.note(Problem{"version", "of the header X-Schema-Version is not supported", d.rules.versions()})
			}
		}
	}
	t := d.rules.types[e.Type]
	if t.Page && !d.url {
		d.missing("context.page.url", "a text of 1 to 2,048 characters")
	}
	e.Purchase = t.Purchase
	if !e.Purchase && !e.Conversion {
		d.unsold()
		return
	}
	e.Order = d.order
	for _, p := range d.bought {
		d.add(p)
	}
	d.more = d.more || d.boughtMore
}

// unsold checks again the fields that only a purchase has, in an event that is not one. There
// they are like any field that no rule names.
func (d *decoder) unsold() {
	for _, s := range d.sold {
		d.raw = s.value
		d.in = *bytes.NewBuffer(s.value)
		d.json.Reset(&d.in)
		d.steps = append(d.steps[:0], step{name: s.name})
		if d.value(anything, 2) != nil {
			return // it said why
		}
	}
}

// value reads and checks the next value.
func (d *decoder) value(f *field, depth int) error {
	k := d.json.PeekKind()
	if k == '{' || k == '[' {
		if depth > maxDepth {
			d.wrong("is nested deeper than "+strconv.Itoa(maxDepth)+" levels", "at most "+strconv.Itoa(maxDepth)+" objects and arrays within each other")
			return d.skip()
		}
		switch {
		case k == '{' && (f.kind == object || f.kind == free):
			return d.object(f, depth)
		case k == '[' && (f.kind == list || f.kind == free):
			return d.list(f, depth)
		}
		d.wrong("is "+describe([]byte{byte(k)}), f.want)
		return d.skip()
	}
	v, err := d.json.ReadValue()
	if err != nil {
		return d.failed(err)
	}
	switch f.kind {
	case free, scalar:
		d.plain(v, f.want)
	case text:
		d.text(v, f)
	case number, integer:
		d.number(v, f)
	case boolean:
		if v[0] != 't' && v[0] != 'f' {
			d.wrong("is "+describe(v), f.want)
		} else if f.keep != nil {
			f.keep(d, v)
		}
	default:
		d.wrong("is "+describe(v), f.want)
	}
	return nil
}

// failed reports a duplicate name as a problem of its own.
func (d *decoder) failed(err error) error {
	if !errors.Is(err, jsontext.ErrDuplicateName) {
		return err
	}
	return d.stop("has a name that comes twice in it", "each name once in an object")
}

// object reads an object.
func (d *decoder) object(f *field, depth int) error {
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	if f.keep != nil {
		f.keep(d, nil)
	}
	seen, count, other := uint64(0), int64(0), f.other
	if f.kind == free {
		other = anything
	}
	for d.json.PeekKind() != '}' {
		name, err := d.json.ReadValue()
		if err != nil {
			return d.failed(err)
		}
		end := int(d.json.InputOffset())
		name = d.raw[end-len(name) : end]
		if len(name) > 2+maxText && utf8.RuneCount(d.unquoted(name)) > maxText {
			return d.stop("has a name of more than 1,000 characters", "names of at most 1,000 characters")
		}
		d.steps = append(d.steps, step{name: name})
		count++
		if err := d.member(f, other, name, depth, &seen); err != nil {
			return err
		}
		d.steps = d.steps[:len(d.steps)-1]
	}
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	if limit := f.membersAtMost(); count > limit {
		d.wrong("has "+grouped(count)+" members", "at most "+grouped(limit)+" members")
	}
	if f == d.rules.event {
		return d.together(seen)
	}
	for _, name := range f.required {
		if m := f.members[name]; seen&m.bit == 0 {
			d.missing(name, m.want)
		}
	}
	return nil
}

func (f *field) membersAtMost() int64 {
	if f.kind == free {
		return maxMembers
	}
	return f.max
}

// member reads the value of a member.
func (d *decoder) member(f, other *field, name []byte, depth int, seen *uint64) error {
	var m *field
	if in := name[1 : len(name)-1]; bytes.IndexByte(in, '\\') < 0 {
		m = f.members[string(in)]
	} else {
		m = f.members[string(d.unquoted(name))]
	}
	if m == nil {
		if m = other; m == nil || f.names != nil && !f.names.fits(d.unquoted(name)) {
			want := f.want
			if f.names != nil {
				want = "names of " + f.names.words
			}
			d.wrong("is a name that is not allowed here", want)
			return d.skip()
		}
	}
	if d.json.PeekKind() == 'n' {
		_, err := d.json.ReadToken()
		return d.failed(err)
	}
	*seen |= m.bit
	if !m.buys {
		return d.value(m, depth+1)
	}
	start := d.json.InputOffset()
	d.buying = true
	err := d.value(m, depth+1)
	d.buying = false
	d.sold = append(d.sold, span{name, bytes.TrimLeft(d.raw[start:d.json.InputOffset()], ": \t\r\n")})
	return err
}

// skip steps over a value that is refused as a whole.
func (d *decoder) skip() error { return d.failed(d.json.SkipValue()) }

// together checks which members the event has.
func (d *decoder) together(seen uint64) error {
	members := d.rules.event.members
	has := func(name string) bool { return seen&members[name].bit != 0 }
	for _, name := range d.rules.event.required {
		if !has(name) {
			want := members[name].want
			if name == "eventType" {
				want = d.rules.want
			}
			d.missing(name, want)
		}
	}
	value := has("value") || has("conversionValue")
	d.buying = true
	defer func() { d.buying = false }()
	if has("value") && has("conversionValue") {
		d.note(Problem{"conversionValue", "is there beside value, which is the same", "one of both"})
	}
	purchase := d.rules.types[d.e.Type].Purchase && !d.e.Conversion
	for _, n := range [...]struct {
		name string
		miss bool
	}{
		{"orderId", purchase && !has("orderId")},
		{"value", purchase && !value},
		{"currency", (purchase || value) && !has("currency")},
		{"items", purchase && !has("items")},
	} {
		if n.miss {
			d.missing(n.name, members[n.name].want)
		}
	}
	if purchase && has("items") && !d.items && !d.complained("items") {
		d.note(Problem{"items", "has 0 elements", "an array of 1 to 100 elements"})
	}
	return nil
}

// complained reports whether that field has a problem already.
func (d *decoder) complained(path string) bool {
	return slices.ContainsFunc(d.bought, func(p Problem) bool { return p.Path == path })
}

// list reads an array.
func (d *decoder) list(f *field, depth int) error {
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	elem, n, limit := f.elem, 0, int(f.max)
	if f.kind == free {
		elem, limit = anything, maxList
	}
	for ; d.json.PeekKind() != ']'; n++ {
		var err error
		if n < limit {
			d.steps = append(d.steps, step{index: n})
			err = d.value(elem, depth+1)
			d.steps = d.steps[:len(d.steps)-1]
		} else {
			err = d.skip()
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	if n > limit {
		d.wrong("has "+grouped(int64(n))+" elements", "at most "+grouped(int64(limit))+" elements")
	}
	if n > 0 && f.keep != nil {
		f.keep(d, nil)
	}
	return nil
}
