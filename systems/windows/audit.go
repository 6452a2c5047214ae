package windows

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// Audit is the proof that nothing is missing: the books of every pipeline that keeps them, and
// of its dead letters, and how they agree.
type Audit struct {
	System    string          `json:"system"`
	Balanced  bool            `json:"balanced"`
	Pipelines []PipelineAudit `json:"pipelines"`
	Faults    []string        `json:"faults"` // what does not add up, in words
}

// PipelineAudit has the books of one pipeline. Those of the delivery count records, not
// windows. A parked window is dead in them, and has no dead letters.
type PipelineAudit struct {
	Pipeline string `json:"pipeline"`
	deadletter.Audit
}

// Audit reads the books and compares them.
func (s *System) Audit(ctx context.Context) (*Audit, error) {
	a := &Audit{System: Name, Pipelines: []PipelineAudit{}, Faults: []string{}}
	books := s.Books()
	names, stores, stored := []string{Delivered}, map[string]bool{}, uint64(0)
	for _, in := range s.p.Intakes {
		names, stores[in.Name] = append(names, in.Name), true
	}
	for _, r := range s.p.Readers {
		names = append(names, r.Name)
	}
	for _, name := range names {
		if books[name] == nil || books[replay(name)] == nil {
			continue
		}
		p, faults, err := deadletter.AuditOf(ctx, books[name], books[replay(name)], "records")
		if err != nil {
			return nil, fmt.Errorf("audit %s: %w", name, err)
		}
		a.Pipelines = append(a.Pipelines, PipelineAudit{name, p})
		if stores[name] {
			stored += p.Delivered
		}
		for _, f := range faults {
			a.Faults = append(a.Faults, name+": "+f)
		}
	}
	fault, err := s.forgotten(ctx, stored)
	if err != nil {
		return nil, err
	}
	if fault != "" {
		a.Faults = append(a.Faults, fault)
	}
	a.Balanced = len(a.Faults) == 0
	return a, nil
}

// Books are those of every pipeline's source, by its name.
func (s *System) Books() map[string]tidemill.Bookkeeper { return tidemill.Bookkeepers(s.sources) }
