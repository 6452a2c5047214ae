package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// direction is who writes a value: what a client sends has to be taken as before, and what it is answered
// has to be what it was.
type direction string

const (
	asked    direction = "asked"
	answered direction = "answered"
)

// schema compares the schemas of a value, which what names. A component is named by itself, so
// that what breaks in it is one line for all operations.
func (c *comparison) schema(d direction, what string, was, is *schema) {
	if was != nil && was.Ref != "" {
		what = nameOf(was.Ref)
		of := is
		if of == nil {
			of = &schema{}
		}
		if pair := [3]string{string(d), was.Ref, of.Ref}; of.Ref != "" && c.seen[pair] {
			return
		} else if of.Ref != "" {
			c.seen[pair] = true
		}
	}
	a, b := c.old.form(was), c.new.form(is)
	if len(a.alternatives()) > 0 || len(b.alternatives()) > 0 {
		c.alternatives(d, what, was, is)
		return
	}
	c.kind(d, what, a, b)
	if d == asked {
		c.allowed(what, a, b)
	} else if a.Format != "" && a.Format != b.Format {
		c.breaks("%s is no %s any more: who reads it so fails", what, a.Format)
	}
	c.bounds(d, what, a, b)
	c.members(d, what, a, b)
	if a.is(b) && (a.Items != nil || b.Items != nil) {
		c.schema(d, "an item of "+what, a.Items, b.Items)
	}
	switch {
	case a.Additional != nil && b.Additional != nil:
		c.schema(d, "a member of "+what, a.Additional, b.Additional)
	case a.Additional != nil && len(b.Type) > 0:
		c.breaks("%s has no members of any name any more", what)
	}
}

func (s *schema) alternatives() []*schema { return append(slices.Clone(s.OneOf), s.AnyOf...) }

// alternatives compares values of several forms. Each that a client sends has to be one still,
// and each that it is answered has to be one already.
func (c *comparison) alternatives(d direction, what string, was, is *schema) {
	of := func(doc *document, s *schema) []*schema {
		if all := doc.form(s).alternatives(); len(all) > 0 {
			return all
		}
		return []*schema{s}
	}
	olds, news := of(c.old, was), of(c.new, is)
	fits := func(a, b *schema) bool {
		trial := *c
		trial.found, trial.seen = map[string]names{}, maps.Clone(c.seen)
		trial.schema(d, what, a, b)
		return len(trial.found) == 0
	}
	judged, against := olds, news
	if d == answered {
		judged, against = news, olds
	}
	for i, s := range judged {
		pair := func(t *schema) (a, b *schema) {
			if d == answered {
				return t, s
			}
			return s, t
		}
		if slices.ContainsFunc(against, func(t *schema) bool { return fits(pair(t)) }) {
			continue
		}
		if len(olds) == len(news) {
			a, b := pair(against[i])
			c.schema(d, what, a, b)
		} else if d == asked {
			c.breaks("%s may not be %s any more: who sends that is refused", what, s.inWords())
		} else {
			c.breaks("%s may be %s, which clients do not expect", what, s.inWords())
		}
	}
}

// inWords names a form.
func (s *schema) inWords() string {
	if s.Ref != "" {
		return nameOf(s.Ref)
	}
	return strings.Join(s.Type, " or ")
}

// kind compares types. An integer is a number.
func (c *comparison) kind(d direction, what string, a, b *schema) {
	judged, against := a.Type, b.Type
	if d == answered {
		judged, against = b.Type, a.Type
	}
	if len(against) == 0 {
		return
	}
	if len(judged) == 0 {
		judged = kinds{"anything"}
	}
	for _, k := range judged {
		switch {
		case slices.Contains(against, k), k == "integer" && slices.Contains(against, "number"):
		case d == asked:
			c.breaks("%s may not be %s any more: who sends that is refused", what, k)
		default:
			c.breaks("%s may be %s, and was %s: who reads it fails", what, k, strings.Join(against, " or "))
		}
	}
}

// allowed compares which values a client may send. Of what is answered a client takes values
// that it does not know.
func (c *comparison) allowed(what string, a, b *schema) {
	if len(a.Enum) == 0 && len(b.Enum) > 0 {
		c.breaks("%s has to be one of %v: who sends another value is refused", what, b.Enum)
	}
	for _, v := range a.Enum {
		if len(b.Enum) > 0 && !slices.Contains(b.Enum, v) {
			c.breaks("%s may not be %v any more: who sends that is refused", what, v)
		}
	}
	if b.Format != "" && a.Format != b.Format {
		c.breaks("%s has to be %s: who sends another is refused", what, b.Format)
	}
	if b.Pattern != "" && a.Pattern != b.Pattern {
		c.breaks("%s has to look like %s: who sends another is refused", what, b.Pattern)
	}
	if a.Default != nil && a.Default != b.Default {
		c.breaks("%s is %v where it is left out, and was %v: who leaves it out gets another answer", what, b.Default, a.Default)
	}
}

// bounds compares how small and how large a number may be.
func (c *comparison) bounds(d direction, what string, a, b *schema) {
	narrow, wide := b, a // the narrower one breaks what is asked
	text := "%s may not be %s %v any more: who sends that is refused"
	if d == answered {
		narrow, wide = a, b
		text = "%s may be %s %v, which clients do not expect"
	}
	if n, w := narrow.Minimum, wide.Minimum; n != nil && (w == nil || *w < *n) && wide.is(narrow) {
		c.breaks(text, what, "less than", *n)
	}
	if n, w := narrow.Maximum, wide.Maximum; n != nil && (w == nil || *w > *n) && wide.is(narrow) {
		c.breaks(text, what, "more than", *n)
	}
}

// is says that both have the same types: where these differ, nothing more is said.
func (s *schema) is(o *schema) bool { return slices.Equal(s.Type, o.Type) }

func (c *comparison) members(d direction, what string, a, b *schema) {
	for _, name := range slices.Sorted(maps.Keys(a.Properties)) {
		member := fmt.Sprintf("%s.%s", what, name)
		now, ok := b.Properties[name]
		switch {
		case !ok && b.Properties == nil && b.Additional == nil: // it is of another type, or anything
		case !ok && d == asked:
			c.breaks("%s is gone: who sends it is refused", member)
		case !ok:
			c.breaks("%s is gone: who reads it finds nothing", member)
		default:
			c.schema(d, member, a.Properties[name], now)
			if d == answered && slices.Contains(a.Required, name) && !slices.Contains(b.Required, name) {
				c.breaks("%s may be left out: who reads it may find nothing", member)
			}
		}
	}
	for _, name := range b.Required {
		if d == asked && !slices.Contains(a.Required, name) && a.Properties != nil {
			c.breaks("%s.%s has to be there: who leaves it out is refused", what, name)
		}
	}
}
