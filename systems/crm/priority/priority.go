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
	"strings"

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
	said     route.Table[uint8] // to the letter
	bare     route.Table[uint8] // without prefixes
	names    []string
}

// New makes a table. It refuses what contradicts itself.
func New(r Rules) (*Table, error) {
	if r.Prefixes == nil {
		r.Prefixes = Default().Prefixes
	}
	t := &Table{prefixes: r.Prefixes}
	for _, p := range t.prefixes {
		if p == "" {
			return nil, fmt.Errorf("priorities: an empty prefix")
		}
	}
	listed := map[string]uint8{}
	for _, l := range []struct {
		level uint8
		types []string
	}{{High, r.High}, {Normal, r.Normal}, {Low, r.Low}} {
		for _, typ := range l.types {
			if err := t.said.Add(typ, l.level); err != nil {
				return nil, fmt.Errorf("priorities: %w", err)
			}
			bare := t.cut(typ)
			if t.names = append(t.names, typ); bare != typ {
				t.names = append(t.names, bare)
			}
			// Where two names differ by their prefixes alone, each is meant to the letter, and
			// others of that name have the higher one.
			if _, there := listed[bare]; there {
				continue
			}
			listed[bare] = l.level
			if err := t.bare.Add(bare, l.level); err != nil {
				return nil, fmt.Errorf("priorities: %q without its prefix: %w", typ, err)
			}
		}
	}
	slices.Sort(t.names)
	t.names = slices.Compact(t.names)
	return t, nil
}

// Of is the level of a type.
func (t *Table) Of(typ string) uint8 {
	if l, ok := t.said.Exact(typ); ok {
		return l
	}
	bare := t.cut(typ)
	if l, ok := t.bare.Exact(bare); ok {
		return l
	}
	if l, _, ok := t.said.Star(typ); ok {
		return l
	}
	if l, _, ok := t.bare.Star(bare); ok {
		return l
	}
	return Normal
}

// Names are all types and patterns that are listed, with and without prefix, sorted.
func (t *Table) Names() []string { return slices.Clone(t.names) }

// cut takes the prefix off, if there is one. All of an application's types ("scl.*") are not
// all types.
func (t *Table) cut(typ string) string {
	for _, p := range t.prefixes {
		if bare, ok := strings.CutPrefix(typ, p); ok && bare != "" && bare != "*" {
			return bare
		}
	}
	return typ
}
