package analyticsconsole

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/analytics/analyticsapi"
)

// advices say what to do about warnings, by type.
var advices = map[string]string{
	"invalid_event":                         "The event is not what was asked for, and is not stored. Mend what sends it: the reason says which member is wrong.",
	"illegal_distinct_id":                   "The distinct id is one that programs send by mistake, as “undefined” or “0”. Mend the sender: all who have it would become one person.",
	"cannot_merge_already_identified":       "Two persons who are both identified are not merged. Use an alias before the second one is identified, or force the merge if it is meant.",
	"cannot_merge_with_illegal_distinct_id": "One of the two ids is one that programs send by mistake, so nobody is merged. Mend the sender.",
}

// advice is what to do about warnings of a type.
func advice(typ string) string {
	return cmp.Or(advices[typ], "The reason says what was wrong. Mend what sends it.")
}

// warned is the warnings of a type that were looked at.
type warned struct {
	Type    string
	Count   int
	Example analyticsapi.Warning // the newest
}

// warningsPage is what a project's owner should know of.
type warningsPage struct {
	of
	Filter   analyticsapi.WarningFilter
	Warnings page.Part[operation.Paged[analyticsapi.Warning]]
	Types    []*warned
}

func showWarnings(v *page.Visit) (*page.View, error) {
	p := &warningsPage{of: projectOf(v)}
	if err := v.Filter(analyticsapi.ListWarnings.Description, &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.InProject, p.Filter.Max = p.Here(), 0
	v.Paging(&p.Filter.Page)
	if p.Project != "" {
		p.Warnings = page.Look(v, func(ctx context.Context) (operation.Paged[analyticsapi.Warning], error) {
			return analyticsapi.ListWarnings.Page(ctx, v.API, &p.Filter)
		})
	}
	for _, w := range p.Warnings.Has.Items {
		i := slices.IndexFunc(p.Types, func(t *warned) bool { return t.Type == w.Type })
		if i < 0 {
			p.Types, i = append(p.Types, &warned{Type: w.Type, Example: w}), len(p.Types)
		}
		p.Types[i].Count++
	}
	return &page.View{File: "warnings", Title: "Analytics: warnings", Section: section, Crumbs: crumbs, Body: p}, nil
}
