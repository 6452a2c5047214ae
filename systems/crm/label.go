package crm

import (
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
	"github.com/tidemill/tidemill/systems/crm/route"
)

// Other is the label of types that the configuration does not name.
const Other = "other"

// labels bound the label values of metrics: senders choose the types of events, and every type
// is a series for ever. A type is a label if a handler or a priority names it. Types that only
// a pattern matches share the pattern as label.
type labels struct{ types *route.Optional[struct{}] }

func newLabels(specs []handler.Spec, priorities *priority.Table) (l labels) {
	l.types, _ = route.NewOptional[struct{}](priorities.Prefixes()) // which priorities have checked
	for _, s := range specs {
		for _, typ := range s.Types {
			_ = l.types.Add(typ, struct{}{}) // it is checked, and may be a duplicate
		}
	}
	for _, typ := range priorities.Names() {
		_ = l.types.Add(typ, struct{}{})
	}
	return l
}

func (l *labels) of(typ string) string {
	if _, name, ok := l.types.Find(typ); ok {
		return name
	}
	return Other
}

// Label is the value of a metric's label for a type of events, from a set that the
// configuration bounds.
func (s *System) Label(typ string) string { return s.force.Load().labels.of(typ) }
