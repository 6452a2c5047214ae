package partner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/sink/httpsink"
)

// rules read answers.
type rules struct {
	success  *expression // nil: 2xx is enough
	outcomes []outcome

	list, id, index, failed *expression
	base                    string
	results                 []outcome
}

type outcome struct {
	when *expression
	v    httpsink.Verdict
}

func newRules(p *Partner) (*rules, error) {
	r := &rules{base: p.Items.Base}
	var err error
	ofItems := ofAnswers("item", "index")
	for _, c := range []struct {
		into         **expression
		name, source string
		v            vocabulary
		bool         bool
	}{
		{&r.success, "success", p.Success, ofAnswers(), true},
		{&r.list, "items.list", p.Items.List, ofAnswers(), false},
		{&r.id, "items.id", p.Items.ID, ofItems, false},
		{&r.index, "items.index", p.Items.Index, ofItems, false},
		{&r.failed, "items.failed", p.Items.Failed, ofItems, true},
	} {
		if c.source == "" {
			continue
		}
		var more []expr.Option
		if c.bool {
			more = append(more, expr.AsBool())
		}
		if *c.into, err = compile(c.name, c.source, c.v, more...); err != nil {
			return nil, err
		}
	}
	if r.outcomes, err = newOutcomes("outcomes", p.Outcomes, ofAnswers()); err != nil {
		return nil, err
	}
	r.results, err = newOutcomes("items.outcomes", p.Items.Outcomes, ofItems)
	return r, err
}

func newOutcomes(name string, from []Outcome, v vocabulary) ([]outcome, error) {
	var all []outcome
	for i, o := range from {
		e, err := compile(fmt.Sprintf("%s[%d].when", name, i), o.When, v, expr.AsBool())
		if err != nil {
			return nil, err
		}
		kind, err := kindNamed(o.Kind)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		all = append(all, outcome{e, httpsink.Verdict{Kind: kind, Why: o.Why}})
	}
	return all, nil
}

// judge is an httpsink.Options.Judge: the first outcome that fits, then, for 2xx, success. An
// outcome that fails to evaluate does not fit.
func (r *rules) judge(a *httpsink.Answer) (httpsink.Verdict, bool) {
	if len(r.outcomes) == 0 && r.success == nil {
		return httpsink.Verdict{}, false
	}
	env := look(a)
	for _, o := range r.outcomes {
		if yes, err := o.when.run(env); err == nil && yes == true {
			return o.v, true
		}
	}
	if r.success == nil || httpsink.KindOf(a.Status) != tidemill.NoKind {
		return httpsink.Verdict{}, false
	}
	yes, err := r.success.run(env)
	switch {
	case err == nil && yes == true:
		return httpsink.Verdict{}, false
	case !a.Whole:
		return httpsink.Verdict{Kind: tidemill.Unknown, Why: "the answer broke off before success could be seen in it"}, true
	}
	return httpsink.Verdict{Kind: tidemill.Partner, Why: fmt.Sprintf("success (%s) is not what it says", r.success.source)}, true
}

// look makes the names of rules. body is nil where the answer is not JSON, or not complete.
func look(a *httpsink.Answer) map[string]any {
	env := map[string]any{"status": a.Status, "body": nil, "raw": string(a.Body)}
	if a.Whole && len(a.Body) > 0 {
		if v, err := decode(a.Body); err == nil {
			env["body"] = v
		}
	}
	return env
}

var (
	errNoList = errors.New("there is no list of results")
	errAgain  = errors.New("two results are of one message")
	errWhose  = errors.New("a result is of no message that was sent")
)

// items is an httpsink.Options.Items. A message without a result is unknown. An answer that
// does not fit the request says nothing about any message.
func (r *rules) items(a *httpsink.Answer, ids []string) ([]httpsink.Verdict, error) {
	env := look(a)
	v, err := r.list.run(env)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, errNoList
	}
	if len(list) > len(ids) || r.id == nil && r.index == nil && len(list) != len(ids) {
		return nil, fmt.Errorf("%d results for %d messages", len(list), len(ids))
	}
	whose, err := r.whose(list, ids, env)
	if err != nil {
		return nil, err
	}
	verdicts := make([]httpsink.Verdict, len(ids))
	for i := range verdicts {
		verdicts[i] = httpsink.Verdict{Kind: tidemill.Unknown, Why: "it is not among the results"}
	}
	seen := make([]bool, len(ids))
	for i, item := range list {
		at := whose[i]
		if seen[at] {
			return nil, errAgain
		}
		seen[at] = true
		env["item"], env["index"] = item, at
		if verdicts[at], err = r.result(env); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

// result is what one result says.
func (r *rules) result(env map[string]any) (httpsink.Verdict, error) {
	failed, err := r.failed.run(env)
	if err != nil || failed != true {
		return httpsink.Verdict{}, err
	}
	v := httpsink.Verdict{Kind: tidemill.Validation, Why: "the partner refused this message"}
	for _, o := range r.results {
		if yes, err := o.when.run(env); err == nil && yes == true {
			v = o.v
			break
		}
	}
	if why := said(env["item"]); why != "" {
		v.Why = strings.TrimPrefix(v.Why+": "+why, ": ")
	}
	return v, nil
}

// whose finds the message of each result.
func (r *rules) whose(list []any, ids []string, env map[string]any) ([]int, error) {
	at := make([]int, len(list))
	switch {
	case r.id != nil:
		place := make(map[string]int, len(ids))
		for i, id := range ids {
			if _, twice := place[id]; twice {
				return nil, errors.New("two messages of the request have one id")
			}
			place[id] = i
		}
		for i, item := range list {
			env["item"], env["index"] = item, i
			v, err := r.id.run(env)
			if err != nil {
				return nil, err
			}
			id, err := asText(v)
			if err != nil {
				return nil, errWhose
			}
			n, ok := place[id]
			if !ok {
				return nil, errWhose
			}
			at[i] = n
		}
	case r.index != nil:
		low, high := len(ids), 0
		for i, item := range list {
			env["item"], env["index"] = item, i
			v, err := r.index.run(env)
			if err != nil {
				return nil, err
			}
			n, ok := v.(int)
			if !ok || n < 0 || n > len(ids) {
				return nil, errWhose
			}
			at[i], low, high = n, min(low, n), max(high, n)
		}
		return r.based(at, low, high, len(ids))
	default:
		for i := range at {
			at[i] = i
		}
	}
	return at, nil
}

// based makes indices count from 0.
func (r *rules) based(at []int, low, high, n int) ([]int, error) {
	one := r.base == "1"
	if r.base == "auto" && len(at) > 0 {
		switch {
		case low == 0 && high == n:
			return nil, errWhose
		case high == n:
			one = true
		case low > 0:
			return nil, errors.New("nobody can tell whether the results count from 0 or from 1")
		}
	}
	for i := range at {
		if one {
			at[i]--
		}
		if at[i] < 0 || at[i] >= n {
			return nil, errWhose
		}
	}
	return at, nil
}
