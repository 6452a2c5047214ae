// Package priority says how urgent an event is, by its type. Use it where events become jobs.
//
// A type is looked up by its exact name, then by patterns; an unlisted type is normal. A prefix
// that names the application ("scl.", "teetime.") is optional, on either side: payment.failed
// and scl.payment.failed are the same. If both are listed the exact spelling counts.
package priority

import (
	"fmt"
	"slices"

	"github.com/tidemill/tidemill/systems/crm/route"
)

// The levels. While several levels wait, each gets a share of what is handed out, by the
// weights 64, 16, 4 and 1: none starves.
const (
	Replay uint8 = iota // a replay never delays new events
	Low                 // in batches
	Normal              // within seconds
	High                // at once
)

// Rules list types, and patterns of them, by level.
type Rules struct {
	High     []string
	Normal   []string
	Low      []string
	Prefixes []string // nil: scl. and teetime.
}

// Default are the rules without configuration.
func Default() Rules {
	return Rules{
		High:     []string{"contactPreference.updated", "scl.payment.failed", "message.bounced", "scl.member.status.changed"},
		Normal:   []string{"member.*", "player.*", "booking.*"},
		Low:      []string{"email.opened", "email.clicked", "teetime.score.posted", "scl.invoice.sent"},
		Prefixes: []string{"scl.", "teetime."},
	}
}

// Table finds levels. It is safe for concurrent use.
type Table struct {
	prefixes []string
	types    *route.Optional[uint8]
	names    []string
}

// New makes a table. It refuses contradictions. If two names differ by their prefixes alone,
// the one with the higher level holds for all other spellings.
func New(r Rules) (*Table, error) {
	if r.Prefixes == nil {
		r.Prefixes = Default().Prefixes
	}
	types, err := route.NewOptional[uint8](r.Prefixes)
	if err != nil {
		return nil, fmt.Errorf("priorities: %w", err)
	}
	t := &Table{prefixes: r.Prefixes, types: types}
	for _, l := range []struct {
		level uint8
		types []string
	}{{High, r.High}, {Normal, r.Normal}, {Low, r.Low}} {
		for _, typ := range l.types {
			if err := types.Add(typ, l.level); err != nil {
				return nil, fmt.Errorf("priorities: %w", err)
			}
			t.names = append(t.names, typ, types.Bare(typ))
		}
	}
	slices.Sort(t.names)
	t.names = slices.Compact(t.names)
	return t, nil
}

// Of is the level of a type.
func (t *Table) Of(typ string) uint8 {
	if l, _, ok := t.types.Find(typ); ok {
		return l
	}
	return Normal
}

// Prefixes are the optional prefixes of types.
func (t *Table) Prefixes() []string { return slices.Clone(t.prefixes) }

// Names are all listed types and patterns, with and without prefix, sorted.
func (t *Table) Names() []string { return slices.Clone(t.names) }
