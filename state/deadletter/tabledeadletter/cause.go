package tabledeadletter

import (
	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/table"
)

// diedOf says whether a dead letter, of which the key of its group was read, died of a common cause.
func (r *Record) diedOf(cause string) bool {
	of := groupKey(r, cause)
	return r.group == of || r.group == outsideKey(of)
}

// ofGroup is the key of the one group that a filter chooses; empty: it chooses by a cause of several, or by none.
func ofGroup(f *deadletter.Filter) string {
	if f.Cause == "" || f.Pipeline == "" || len(f.Kinds) != 1 {
		return ""
	}
	r := &Record{}
	r.Pipeline, r.Kind = f.Pipeline, f.Kinds[0]
	return groupKey(r, f.Cause)
}

// died are the lines of the dead letters that died of the filter's cause: those that a group counts,
// and those for whose group there was no room.
func (q *search) died(tx table.Reader[Record], pipelines []string) (lines []*line, err error) {
	kinds := q.Kinds
	if len(kinds) == 0 {
		kinds = append(tidemill.Kinds(), tidemill.NoKind)
	}
	var groups []*Record
	var keys []string
	for _, name := range pipelines {
		keys = append(keys, otherKey(name))
		for _, kind := range kinds {
			g := &Record{state: grouped}
			g.Pipeline, g.Kind = name, kind
			g.key = groupKey(g, q.Cause)
			groups, keys = append(groups, g), append(keys, g.key)
		}
	}
	found, err := tx.Get(keys, "state")
	if err != nil {
		return nil, err
	}
	under := func(pipeline, key string) {
		for _, state := range states(&q.Filter) {
			lines = append(lines, &line{pipeline: pipeline, state: state, query: table.Query[Record]{By: "cause", Back: q.Back, Most: pageMax,
				Where: []table.Cond{{Field: "grouped", Op: "=", Value: key}, {Field: "state", Op: "=", Value: state}}}})
		}
	}
	for _, g := range groups {
		if found[g.key] != nil {
			under(g.Pipeline, g.key)
		}
		if found[otherKey(g.Pipeline)] != nil {
			under(g.Pipeline, outsideKey(g.key))
		}
	}
	return lines, nil
}
