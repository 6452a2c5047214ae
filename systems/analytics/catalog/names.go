package catalog

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tidemill/tidemill/state/definition"
)

// names are definitions that wait to be upserted, each once.
type names struct {
	events     map[eventKey]definition.Event
	properties map[propertyKey]definition.Property
	pairs      map[pairKey]definition.EventProperty
}

func newNames() names {
	return names{map[eventKey]definition.Event{}, map[propertyKey]definition.Property{}, map[pairKey]definition.EventProperty{}}
}

func (n *names) size() int { return len(n.events) + len(n.properties) + len(n.pairs) }

// batch puts them in an order that depends on the names alone.
func (n *names) batch() *definition.Batch {
	b := &definition.Batch{}
	for _, e := range n.events {
		b.Events = append(b.Events, e)
	}
	for _, p := range n.properties {
		b.Properties = append(b.Properties, p)
	}
	for _, p := range n.pairs {
		b.EventProperties = append(b.EventProperties, p)
	}
	slices.SortFunc(b.Events, func(a, b definition.Event) int {
		return cmp.Or(bytes.Compare(a.Project[:], b.Project[:]), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(b.Properties, func(a, b definition.Property) int {
		return cmp.Or(bytes.Compare(a.Project[:], b.Project[:]), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Of, b.Of))
	})
	slices.SortFunc(b.EventProperties, func(a, b definition.EventProperty) int {
		return cmp.Or(bytes.Compare(a.Project[:], b.Project[:]), cmp.Compare(a.Event, b.Event), cmp.Compare(a.Property, b.Property), cmp.Compare(a.Of, b.Of))
	})
	return b
}

// room says whether one more name may wait.
func (c *Catalog) room() bool { return c.waiting.size()+c.flushing < maxWaiting }

// remember adds a name to those known this hour.
func remember[K comparable, V any](known map[K]V, k K, v V) {
	if _, ok := known[k]; !ok && len(known) >= maxKnown {
		clear(known)
	}
	known[k] = v
}

// putBack lets names whose upsert failed wait again. Room was kept for them.
func (c *Catalog) putBack(ns names) {
	for k, e := range ns.events {
		if _, ok := c.waiting.events[k]; !ok {
			c.waiting.events[k] = e
		}
	}
	for k, p := range ns.properties {
		if now, ok := c.waiting.properties[k]; ok {
			now.Type = cmp.Or(p.Type, now.Type)
			p = now
		}
		c.waiting.properties[k] = p
	}
	for k, p := range ns.pairs {
		if _, ok := c.waiting.pairs[k]; !ok {
			c.waiting.pairs[k] = p
		}
	}
}
