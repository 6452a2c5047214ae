package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// release is what the last one promised.
type release struct {
	*document
	made time.Time
}

// comparison gathers what breaks.
type comparison struct {
	old, new *document
	found    map[string]names // operations, by what a client of them notices
	at       string           // the operation that is compared
	seen     map[[3]string]bool
}

// breaks are what clients of a release notice of a later description, at a time: a line each, in order.
func breaks(old release, later *document, now time.Time) (lines []string) {
	c := &comparison{old: old.document, new: later, found: map[string]names{}}
	has := later.operations()
	for id, was := range old.operations() {
		c.at, c.seen = id, map[[3]string]bool{}
		if is := has[id]; is != nil {
			c.operation(was, is, old.made)
		} else if ends, err := time.Parse(time.DateOnly, was.Sunset); err != nil {
			c.breaks("%s is gone, and the last release did not say that it goes away: who asks for it is answered 404", was.request)
		} else if now.Before(ends) {
			c.breaks("%s is gone before %s, until when the last release promised it: who asks for it is answered 404", was.request, was.Sunset)
		}
	}
	for what, ids := range c.found {
		lines = append(lines, several(ids)+": "+what)
	}
	slices.Sort(lines)
	return lines
}

// several names operations, the first of many.
func several(ids names) string {
	const most = 4
	slices.Sort(ids)
	if len(ids) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:most-1], ", "), len(ids)-most+1)
	}
	return strings.Join(ids, ", ")
}

func (c *comparison) breaks(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if !slices.Contains(c.found[what], c.at) {
		c.found[what] = append(c.found[what], c.at)
	}
}

// wildcard is one of a path. Its name is that of a parameter, by which commands give it.
var wildcard = regexp.MustCompile(`\{[^}]*\}`)

// roles, from the one that may least.
var roles = names{"viewer", "operator", "admin"}

func (c *comparison) operation(was, is *operation, made time.Time) {
	if wildcard.ReplaceAllString(was.request, "{}") != wildcard.ReplaceAllString(is.request, "{}") {
		c.breaks("%s became %s: who asks for the first is answered 404", was.request, is.request)
	}
	if slices.Index(roles, is.Role) > slices.Index(roles, was.Role) {
		c.breaks("it needs the role %s: who has the role %s is answered 403", is.Role, was.Role)
	}
	if was.Systems != is.Systems && was.Systems != "all" {
		c.breaks("its role has to be for %s, and not for %s: who has it for that alone is answered 403", is.Systems, was.Systems)
	}
	if is.FreshLogin && !was.FreshLogin {
		c.breaks("it needs a fresh login: who logged in earlier is answered 403")
	}
	c.going(was, is, made)
	c.parameters(was, is)
	c.body(was.Body, is.Body)
	c.answers(was.Responses, is.Responses)
}

// going compares what is said of its end.
func (c *comparison) going(was, is *operation, made time.Time) {
	since, err := time.Parse(time.DateOnly, is.Deprecated)
	switch {
	case err != nil: // it stays
	case was.Deprecated == "" && since.Before(made.Truncate(24*time.Hour)):
		c.breaks("it is said to go away since %s, and the release of %s did not say so: clients have not had that time", is.Deprecated, made.Format(time.DateOnly))
	case was.Sunset > is.Sunset:
		c.breaks("it ends on %s, and was promised until %s", is.Sunset, was.Sunset)
	}
}

func (c *comparison) parameters(was, is *operation) {
	find := func(in []*parameter, p *parameter) *parameter {
		if i := slices.IndexFunc(in, func(o *parameter) bool { return o.In == p.In && o.Name == p.Name }); i >= 0 {
			return in[i]
		}
		return nil
	}
	for _, p := range was.Parameters {
		what := fmt.Sprintf("the parameter %s (%s)", p.Name, p.In)
		now := find(is.Parameters, p)
		if now == nil {
			c.breaks("%s is gone: who gives it is refused, or not heeded", what)
			continue
		}
		if now.Required && !p.Required {
			c.breaks("%s has to be given: who leaves it out is refused", what)
		}
		c.schema(asked, what, p.Schema, now.Schema)
	}
	for _, p := range is.Parameters {
		if p.Required && find(was.Parameters, p) == nil {
			c.breaks("the parameter %s (%s) is new and has to be given: who does not know it is refused", p.Name, p.In)
		}
	}
}

func (c *comparison) body(was, is *body) {
	switch {
	case was == nil && is == nil:
	case was == nil:
		if is.Required {
			c.breaks("it needs a body: who sends none is refused")
		}
	case is == nil:
		c.breaks("it takes no body: what a client sends is refused, or not heeded")
	default:
		if is.Required && !was.Required {
			c.breaks("it needs its body: who sends none is refused")
		}
		c.content(asked, "the body", was.Content, is.Content)
	}
}

func (c *comparison) answers(was, is map[string]*response) {
	for _, status := range slices.Sorted(maps.Keys(was)) {
		a, b := was[status], is[status]
		done := strings.HasPrefix(status, "2")
		switch {
		case b == nil && done:
			c.breaks("it does not answer %s: clients that look for it take it for a failure", status)
		case b != nil:
			what := "the answer " + status
			c.content(answered, what, a.Content, b.Content)
			for name := range a.Headers {
				if _, ok := b.Headers[name]; !ok {
					c.breaks("%s has no header %s: who reads it finds nothing", what, name)
				}
			}
		}
	}
	for status := range is {
		if was[status] == nil && strings.HasPrefix(status, "2") {
			c.breaks("it may answer %s, which clients do not expect", status)
		}
	}
}

func (c *comparison) content(d direction, what string, was, is content) {
	for _, kind := range slices.Sorted(maps.Keys(was)) {
		now, ok := is[kind]
		if !ok {
			c.breaks("%s is not %s any more: who sends or wants that is refused", what, kind)
			continue
		}
		c.schema(d, what, was[kind].Schema, now.Schema)
	}
}
