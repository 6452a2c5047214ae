package process

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/systems/windows/record"
)

// Aggregate counts the records of a batch in groups, and adds values up. Its result comes at
// the end of the batch:
//
//	{"records":120,"others":0,"groups":[{"by":{"actor1CountryCode":"USA"},"count":70,"of":{"avgTone":{"count":70,"sum":-91.5,"min":-9.1,"max":4}}}, …]}
//
// Groups are sorted by their count, the largest first. A value with which a sum would be no number any
// more is left out of it.
type Aggregate struct {
	ID  string      // the processor's name; empty: aggregate
	Of  record.Kind // the kind of records that are counted
	By  []string    // names of values by which groups are made; none: one group
	Sum []string    // names of numeric values to be added up
	Max int         // groups of a batch; 0: 10,000. Records of further groups count as others
}

// New makes the processor.
func (a Aggregate) New() (Processor, error) {
	who := or(a.ID, "aggregate")
	if a.Max < 0 || a.Of.Fields() == 0 {
		return nil, fmt.Errorf("%s: a kind of records is needed, and no negative number", who)
	}
	if a.Max == 0 {
		a.Max = 10_000
	}
	g := &aggregate{Aggregate: a}
	var err error
	if len(a.By) > 0 {
		if g.by, err = fieldsOf(who, a.Of, a.By); err != nil {
			return nil, err
		}
	}
	if len(a.Sum) > 0 {
		if g.sum, err = fieldsOf(who, a.Of, a.Sum); err != nil {
			return nil, err
		}
	}
	for i, f := range g.sum {
		if a.Of.Type(f) == record.Text {
			return nil, fmt.Errorf("%s: %s is a text, which cannot be added up", who, a.Sum[i])
		}
	}
	return g, nil
}

type aggregate struct {
	Aggregate
	by, sum []record.Field
}

func (a *aggregate) Name() string { return or(a.ID, "aggregate") }

func (a *aggregate) Begin(string) Worker {
	return &aggregateWorker{aggregate: a, groups: map[string]*group{}}
}

type aggregateWorker struct {
	*aggregate
	groups          map[string]*group
	records, others uint64
	scratch         []byte
}

type group struct {
	By    map[string]json.RawMessage `json:"by"`
	Count uint64                     `json:"count"`
	Of    map[string]*sum            `json:"of,omitempty"`

	key  string
	sums []*sum
}

type sum struct {
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
}

// maxGroupKey is how many bytes the values of a group may have; longer ones count as others.
const maxGroupKey = 4 << 10

func (w *aggregateWorker) Page(_ context.Context, items []*Item) error {
	for _, it := range items {
		if it.Kind != w.Of {
			continue
		}
		w.records++
		g := w.group(&it.Record)
		if g == nil {
			w.others++
			continue
		}
		g.Count++
		for i, f := range w.sum {
			x, ok := it.Record.Float(f)
			if !ok {
				continue
			}
			s := g.sums[i]
			if math.IsInf(s.Sum+x, 0) { // JSON has no infinity, and the batch's result would be lost with it
				continue
			}
			if s.Count == 0 || x < s.Min {
				s.Min = x
			}
			if s.Count == 0 || x > s.Max {
				s.Max = x
			}
			s.Count++
			s.Sum += x
		}
	}
	return nil
}

// group is the record's group; nil: too many groups.
func (w *aggregateWorker) group(r *record.Record) *group {
	key := w.scratch[:0]
	for _, f := range w.by {
		key = append(append(key, r.Value(f)...), 0)
	}
	w.scratch = key
	if g := w.groups[string(key)]; g != nil {
		return g
	}
	if len(w.groups) >= w.Max || len(key) > maxGroupKey {
		return nil
	}
	g := &group{key: string(key), By: map[string]json.RawMessage{}}
	for i, f := range w.by {
		v := json.RawMessage("null")
		if raw := r.Value(f); raw != nil {
			v = slices.Clone(json.RawMessage(raw))
		}
		g.By[w.By[i]] = v
	}
	if len(w.sum) > 0 {
		g.Of = map[string]*sum{}
	}
	for _, name := range w.Sum {
		s := new(sum)
		g.Of[name] = s
		g.sums = append(g.sums, s)
	}
	w.groups[g.key] = g
	return g
}

// End implements Ender.
func (w *aggregateWorker) End(context.Context) ([]Result, error) {
	groups := make([]*group, 0, len(w.groups))
	for _, g := range w.groups {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.key, b.key))
	})
	value, err := json.Marshal(struct {
		Records uint64   `json:"records"`
		Others  uint64   `json:"others"`
		Groups  []*group `json:"groups"`
	}{w.records, w.others, groups})
	if err != nil {
		return nil, fmt.Errorf("write the groups of a batch: %w", err)
	}
	return []Result{{Value: value}}, nil
}
