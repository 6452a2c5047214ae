package event

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// unquoted is the unescaped text, in the decoder's own memory if it had escapes.
func (d *decoder) unquoted(v []byte) []byte {
	if in := v[1 : len(v)-1]; bytes.IndexByte(in, '\\') < 0 {
		return in
	}
	d.scratch, _ = jsontext.AppendUnquote(d.scratch[:0], v) // it was read as valid before
	return d.scratch
}

// text judges a text.
func (d *decoder) text(v []byte, f *field) {
	if v[0] != '"' {
		d.wrong("is "+describe(v), f.want)
		return
	}
	s := d.unquoted(v)
	if f.enum != nil {
		for _, one := range f.enum {
			if string(s) == one {
				f.keep(d, s)
				return
			}
		}
		d.wrong("is another text", f.want)
		return
	}
	n := int64(len(s))
	if n > f.max || f.min > 1 {
		n = int64(utf8.RuneCount(s))
	}
	switch {
	case n < f.min || n > f.max:
		d.wrong("has "+grouped(n)+" characters", f.want)
	case f.form.fits != nil && !f.form.fits(s):
		d.wrong("does not look like one", f.want)
	case f.keep != nil:
		f.keep(d, s)
	}
}

// number judges a number.
func (d *decoder) number(v []byte, f *field) {
	if v[0] != '-' && !digit(v[0]) {
		d.wrong("is "+describe(v), f.want)
		return
	}
	n := parseNumber(v)
	switch {
	case len(v) > maxNumber:
		d.wrong("is a number of more than 100 characters", f.want)
	case n.below(f.min):
		d.wrong("is less than "+grouped(f.min), f.want)
	case f.max != noMax && n.above(f.max):
		d.wrong("is more than "+grouped(f.max), f.want)
	case f.kind == integer && n.part:
		d.wrong("is no whole number", f.want)
	}
}

// plain judges a value that no rule names.
func (d *decoder) plain(v []byte, want string) {
	switch {
	case v[0] == '"':
		if len(v) > 2+maxText {
			if n := utf8.RuneCount(d.unquoted(v)); n > maxText {
				d.wrong("has "+grouped(int64(n))+" characters", orWords(want, "at most 1,000 characters"))
			}
		}
	case len(v) > maxNumber:
		d.wrong("is a number of more than 100 characters", orWords(want, "at most 100 characters"))
	}
}

func orWords(want, otherwise string) string {
	if want == "" {
		return otherwise
	}
	return want
}

// describe says what a value is.
func describe(v []byte) string {
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a text"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}

func (d *decoder) string(v []byte) string { return string(v) }

// setType keeps the type, if it is one.
func (d *decoder) setType(v []byte) {
	t, ok := d.rules.types[string(v)]
	if !ok {
		d.wrong("is no type that is known", d.rules.want)
		return
	}
	d.e.Type = t.name
}

// setVersion keeps the version, if it is supported.
func (d *decoder) setVersion(v []byte) {
	if !d.takeVersion(v) {
		d.wrong("is not supported", d.rules.versions())
	}
}

func (d *decoder) takeVersion(v []byte) bool {
	n, _ := major(v)
	if now := d.rules.major; n != now && n != now-1 {
		return false
	}
	if d.e.Version = "1.0.0"; string(v) != "1.0.0" {
		d.e.Version = string(v)
	}
	return true
}

func (r *Rules) versions() string {
	return "version " + strconv.Itoa(r.major) + ".x or " + strconv.Itoa(r.major-1) + ".x"
}

// wrong notes a problem of the value that is being read.
func (d *decoder) wrong(what, allowed string) {
	d.note(Problem{Path: path(d.steps), Wrong: what, Allowed: allowed})
}

// missing notes that the object being read lacks a member.
func (d *decoder) missing(name, allowed string) {
	p := path(d.steps)
	if p != "" {
		p += "."
	}
	d.note(Problem{Path: p + name, Wrong: "is missing", Allowed: allowed})
}

func (d *decoder) note(p Problem) {
	if !d.buying {
		d.add(p)
		return
	}
	if len(d.bought) < MaxProblems {
		d.bought = append(d.bought, p)
	} else {
		d.boughtMore = true
	}
}

// stop notes a problem that makes the rest of the event doubtful.
func (d *decoder) stop(what, allowed string) error {
	d.add(Problem{Path: path(d.steps), Wrong: what, Allowed: allowed})
	return errStop
}

func (d *decoder) add(p Problem) {
	if len(d.problems) < MaxProblems {
		d.problems = append(d.problems, p)
	} else {
		d.more = true
	}
}
