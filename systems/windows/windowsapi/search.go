package windowsapi

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// search asks the index.
func (a *API) search(ctx context.Context, v *SearchQuery) (out Found, err error) {
	q := search.Query{Schema: cmp.Or(v.Family, "events"), Text: v.Query, After: v.After, Before: v.Before, Oldest: v.Oldest, Size: v.Size}
	if len(a.Windows.Schemas()) > 0 { // else Search says what is missing
		family, err := a.Windows.Family(q.Schema)
		if err != nil {
			return out, answer.Answerable(err)
		}
		q.Schema = family
	}
	if q.From, q.To, err = answer.Span(v.Span); err != nil {
		return out, err
	}
	page, err := a.Windows.Search(ctx, q)
	if err != nil && answer.Passing(err) {
		return out, answer.Busy(err)
	}
	if err != nil {
		return out, answer.Answerable(err)
	}
	out = Found{Family: q.Schema, Hits: []operation.JSON[Hit]{}, Next: page.Next, Previous: page.Previous}
	if q.After == "" && q.Before == "" {
		out.Total, out.AtLeast = &page.Total, page.Total >= search.MaxTotal
	}
	for _, h := range page.Hits {
		hit, err := json.Marshal(Hit{Day: h.Day, ID: h.ID, Document: h.Body})
		if err != nil {
			return out, err
		}
		out.Hits = append(out.Hits, hit)
	}
	return out, nil
}
