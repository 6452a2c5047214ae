package catalog

import (
	"bytes"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// bag is one of an event's two JSON objects of properties.
type bag struct {
	json []byte
	of   definition.Of
}

// shape appends what matters of the bag: its names in order, each with the kind of its value,
// as a property of unknown type may get one. It counts the names. A bag that is not a JSON
// object is emptied: it has no properties.
func (g *bag) shape(b []byte) (_ []byte, count int) {
	start := len(b)
	for s, ok := open(g.json); ok && count <= maxProperties; {
		var name, value []byte
		if name, value, ok = s.next(); !ok {
			if s.bad {
				g.json = nil
				return b[:start], 0
			}
			break
		}
		count++
		b = append(append(b, name...), '"', kindOf(value))
		if operation(name) {
			b = innerShape(b, value)
		}
	}
	return b, count
}

// innerShape is the shape of a $set or $set_once.
func innerShape(b, object []byte) []byte {
	b = append(b, '{')
	for s, ok := open(object); ok; {
		var name, value []byte
		if name, value, ok = s.next(); ok {
			b = append(append(b, name...), '"', kindOf(value))
		}
	}
	return append(b, '}')
}

// kindOf tells values with a type from those without.
func kindOf(value []byte) byte {
	switch value[0] {
	case 'n', '{', '[':
		return '?'
	}
	return '='
}

// operation reports whether a property is an object of properties of the person.
func operation(name []byte) bool { return string(name) == "$set" || string(name) == "$set_once" }

// hidden reports names that are operations on events, not properties. In user_properties they
// are not properties of the person either.
func hidden(of definition.Of, name string) bool {
	switch name {
	case "$set", "$set_once", "$unset":
		return true
	case "$groups", "$group_0", "$group_1", "$group_2", "$group_3", "$group_4":
		return of == definition.OfEvent
	}
	return false
}

// each passes every property of the bag to s.
func (g *bag) each(s *sighting) {
	for o, ok := open(g.json); ok; {
		var name, value []byte
		if name, value, ok = o.next(); !ok {
			return
		}
		s.property(g.of, name, value)
		if operation(name) {
			for in, ok := open(value); ok; {
				if name, value, ok = in.next(); ok {
					s.property(definition.OfPerson, name, value)
				}
			}
		}
	}
}

// sighting adds the possibly new names of one event to the catalogue.
type sighting struct {
	c    *Catalog
	e    *event.Event
	name string // of the event, as catalogued
	now  time.Time
	all  bool // so far every name is known or waits
}

func (s *sighting) event() {
	c := s.c
	s.name = strings.ToValidUTF8(s.e.Name, "\ufffd")
	if _, ok := c.known.events[eventKey{s.e.Project, s.name}]; ok {
		return
	}
	s.name = strings.Clone(s.name) // e's memory may be reused
	k := eventKey{s.e.Project, s.name}
	if _, ok := c.waiting.events[k]; !ok && !c.room() {
		s.all = false
		return
	}
	c.waiting.events[k] = definition.Event{Project: s.e.Project, Name: s.name, LastSeen: c.hour}
	remember(c.known.events, k, struct{}{})
}

// property adds a property by its name as in the JSON, without the quotes.
func (s *sighting) property(of definition.Of, raw, value []byte) {
	c := s.c
	name := raw
	if bytes.IndexByte(raw, '\\') >= 0 || !ascii(raw) {
		quoted := append(append([]byte{'"'}, raw...), '"')
		name, _ = jsontext.AppendUnquote(nil, quoted) // what is not UTF-8 becomes U+FFFD
	}
	if long(name) || hidden(of, string(name)) {
		return
	}
	typed, ok := c.known.properties[propertyKey{s.e.Project, of, string(name)}]
	if !ok || !typed {
		s.newProperty(of, string(name), value, ok)
	}
	if _, ok := c.known.pairs[pairKey{s.e.Project, of, s.name, string(name)}]; !ok {
		s.newPair(of, string(name))
	}
}

// newProperty adds a property, or the type of one that had none.
func (s *sighting) newProperty(of definition.Of, name string, value []byte, known bool) {
	c, k := s.c, propertyKey{s.e.Project, of, name}
	typ := definition.TypeOf(name, value, s.now)
	if known && typ == "" {
		return
	}
	if w, ok := c.waiting.properties[k]; ok {
		if w.LastSeen = c.hour; w.Type == "" {
			w.Type = typ
		}
		c.waiting.properties[k] = w
		remember(c.known.properties, k, w.Type != "")
		return
	}
	if !c.room() {
		s.all = false
		return
	}
	c.waiting.properties[k] = definition.Property{Project: s.e.Project, Name: of.Name(name), Of: of, Type: typ, LastSeen: c.hour}
	remember(c.known.properties, k, typ != "")
}

func (s *sighting) newPair(of definition.Of, name string) {
	c, k := s.c, pairKey{s.e.Project, of, strings.Clone(s.name), name}
	if _, ok := c.waiting.pairs[k]; !ok && !c.room() {
		s.all = false
		return
	}
	c.waiting.pairs[k] = definition.EventProperty{Project: s.e.Project, Event: k.event, Property: of.Name(name), Of: of, LastSeen: c.hour}
	remember(c.known.pairs, k, struct{}{})
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
