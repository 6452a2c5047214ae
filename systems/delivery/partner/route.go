package partner

import (
	"fmt"
	"slices"

	"github.com/expr-lang/expr"

	"github.com/tidemill/tidemill"
)

// An Event is read once for routing: every partner's condition uses the same one.
type Event struct {
	site  string
	value map[string]any
	env   map[string]any
}

// ReadEvent reads an event. Anything but a JSON object is invalid. Expressions see id as its
// id.
func ReadEvent(m *tidemill.Message, id string) (*Event, error) {
	v, err := decode(m.Payload)
	if err != nil {
		return nil, invalid("the event cannot be read: %w", plain(err))
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, invalid("the event is no object")
	}
	return &Event{site: m.Tenant, value: object,
		env: map[string]any{"event": object, "setting": map[string]any{}, "id": id, "site": m.Tenant}}, nil
}

// Get finds the value at a path of objects, or nil.
func (e *Event) Get(path ...string) any {
	var v any = e.value
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// A Route says which events are for a partner.
type Route struct {
	when   *expression // nil: all
	sites  []string    // empty: of all sites
	Vendor string      // the partner's number in the TCF's list; empty: not asked
}

func (p *Partner) route() (r Route, err error) {
	r.sites, r.Vendor = p.Sites, p.Vendor
	if p.When != "" {
		r.when, err = compile("when", p.When, ofEvents(nil, p.Fields), expr.AsBool())
	}
	return r, err
}

// OfSite says whether events of a site may be for the partner.
func (r *Route) OfSite(site string) bool { return len(r.sites) == 0 || slices.Contains(r.sites, site) }

// Takes reports whether the event is for the partner. An expression that fails, or is neither
// true nor false, makes the event invalid: silence would lose it.
func (r *Route) Takes(e *Event) (bool, error) {
	if !r.OfSite(e.site) {
		return false, nil
	}
	if r.when == nil {
		return true, nil
	}
	v, err := r.when.run(e.env)
	if err != nil {
		return false, invalid("%w", err)
	}
	switch yes := v.(type) {
	case bool:
		return yes, nil
	case nil: // a comparison with an absent field
		return false, nil
	}
	return false, invalid("when: expression `%s` is neither true nor false, but %s", r.when.source, fmt.Sprintf("%T", v))
}

// A Rule is a named condition on events. Its user decides by it.
type Rule struct{ when *expression }

// NewRule compiles a condition. fields are names of event fields in addition to the known ones.
func NewRule(name, when string, fields []string) (*Rule, error) {
	e, err := compile(name, when, ofEvents(nil, fields), expr.AsBool())
	if err != nil {
		return nil, err
	}
	return &Rule{e}, nil
}

// Holds reports whether the condition holds. One that fails does not.
func (r *Rule) Holds(e *Event) bool {
	v, err := r.when.run(e.env)
	yes, ok := v.(bool)
	return err == nil && ok && yes
}
