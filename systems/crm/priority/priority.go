// Package priority says how much an event hurries, by its type. Use it where events become
// jobs.
//
// A type is looked for by its exact name, then by patterns; what is not listed is normal. A
// prefix that names the application ("scl.", "teetime.") may be there or not, on either
// side: payment.failed and scl.payment.failed are the same. Where both are listed the one
// that was meant to the letter counts.
package priority

import (
	"fmt"
	"slices"

	"github.com/tidemill/tidemill/systems/crm/route"
)

// The levels. Of what is handed out while several of them wait each gets a part, by the
// weights 64, 16, 4 and 1: none starves.
const (
	Replay uint8 = iota // a replay never holds up what is new
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

// Default are the rules where nothing else is said.
func Default() Rules {
	return Rules{
		High:     []string{"contactPreference.updated", "scl.payment.failed", "message.bounced", "scl.member.status.changed"},
		Normal:   []string{"member.*", "player.*", "booking.*"},
		Low:      []string{"email.opened", "email.clicked", "teetime.score.posted", "scl.invoice.sent"},
		Prefixes: []string{"scl.", "teetime."},
	}
}

// Table finds levels. It may be used by many at once.
type Table struct {
	prefixes []string
	types    *route.Optional[uint8]
	names    []string
}

// New makes a table. It refuses what contradicts itself. Of two names that differ by their prefixes
// alone the one with the higher level is for all others of that name.
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

// Prefixes are what types may begin with or not.
func (t *Table) Prefixes() []string { return slices.Clone(t.prefixes) }

// Names are all types and patterns that are listed, with and without prefix, sorted.
func (t *Table) Names() []string { return slices.Clone(t.names) }
