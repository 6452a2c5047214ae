package process

import (
	"context"
	"fmt"

	"github.com/expr-lang/expr"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// Filter keeps the records for which an expression is true, and skips the others. An expression
// that fails for a record is a failure.
type Filter struct {
	ID     string // the processor's name; empty: filter
	Keep   string // such as: kind == "mention" || numMentions > 1 && actor1CountryCode in ["USA", "DEU"]
	Reason string // of skipped records; empty: filtered
}

// New makes the processor.
func (f Filter) New() (Processor, error) {
	name := or(f.ID, "filter")
	keep, err := compile(name, f.Keep, expr.AsBool())
	if err != nil {
		return nil, err
	}
	reason := or(f.Reason, "filtered")
	return Each(name, func(_ context.Context, batch string, it *Item) error {
		yes, err := keep.run(batch, &it.Record)
		if err == nil && yes != true {
			it.Skip(reason)
		}
		return err
	}), nil
}

// Validate checks records: one for which a rule is not true becomes a dead letter, by the
// first.
type Validate struct {
	ID    string // the processor's name; empty: validate
	Rules []Rule
}

// Rule is one of Validate.
type Rule struct {
	Must string `yaml:"must" help:"an expression that has to be true, such as: (actionGeoLat ?? 0) <= 90"`
	Why  string `yaml:"why" help:"in words, if it is not; empty: the expression"`
}

// New makes the processor.
func (v Validate) New() (Processor, error) {
	name := or(v.ID, "validate")
	if len(v.Rules) == 0 {
		return nil, fmt.Errorf("%s: no rule is given", name)
	}
	must := make([]*expression, len(v.Rules))
	for i, r := range v.Rules {
		var err error
		if must[i], err = compile(fmt.Sprintf("%s: rule %d", name, i+1), r.Must, expr.AsBool()); err != nil {
			return nil, err
		}
	}
	return Each(name, func(_ context.Context, batch string, it *Item) error {
		for i, m := range must {
			yes, err := m.run(batch, &it.Record)
			if err != nil {
				return err
			}
			if yes != true {
				it.Refuse(tidemill.Fail(tidemill.Validation, "the %s is not valid: %s", it.Kind, or(v.Rules[i].Why, v.Rules[i].Must)))
				return nil
			}
		}
		return nil
	}), nil
}

// Map gives records values: it replaces those of their own names. Others are added and go out
// behind them.
type Map struct {
	ID     string // the processor's name; empty: map
	Values []Value
}

// Value is one of Map.
type Value struct {
	Name string `yaml:"name" help:"what the value is called that is added"`
	From string `yaml:"from" help:"an expression; the name of a value alone takes it as it is written"`
}

// New makes the processor. Values are computed in order, each from the result of those before
// it.
func (m Map) New() (Processor, error) {
	name := or(m.ID, "map")
	if len(m.Values) == 0 {
		return nil, fmt.Errorf("%s: no value is given", name)
	}
	from := make([]*expression, len(m.Values))
	for i, v := range m.Values {
		if v.Name == "" || v.Name == record.Event.Name(record.GlobalEventID) {
			return nil, fmt.Errorf("%s: value %d is called %q: want a name, other than what records are known by", name, i+1, v.Name)
		}
		var err error
		if from[i], err = compile(fmt.Sprintf("%s: %s", name, v.Name), v.From); err != nil {
			return nil, err
		}
	}
	return Each(name, func(_ context.Context, batch string, it *Item) error {
		for i, v := range m.Values {
			json, err := m.value(batch, it, v, from[i])
			if err != nil {
				return fmt.Errorf("%s: %w", v.Name, err)
			}
			if err := give(&it.Record, v.Name, json); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

func (m Map) value(batch string, it *Item, v Value, from *expression) ([]byte, error) {
	if f, alone := it.Kind.Lookup(v.From); alone {
		if raw := it.Record.Value(f); raw != nil {
			return raw, nil
		}
		return []byte("null"), nil
	}
	x, err := from.run(batch, &it.Record)
	if err != nil {
		return nil, err
	}
	return asJSON(x)
}

func or(s, usual string) string {
	if s == "" {
		return usual
	}
	return s
}
