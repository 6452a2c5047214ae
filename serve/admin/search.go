package admin

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// search asks the index.
func (a *API) search(ctx context.Context, v *api.SearchQuery) (out api.Found, err error) {
	q := search.Query{Schema: cmp.Or(v.Family, "events"), Text: v.Query, After: v.After, Oldest: v.Oldest, Size: v.Size}
	if len(a.Windows.Schemas()) > 0 { // else Search says what is missing
		family, err := a.Windows.Family(q.Schema)
		if err != nil {
			return out, answerable(err)
		}
		q.Schema = family
	}
	if q.From, q.To, err = a.span(v.Span); err != nil {
		return out, err
	}
	page, err := a.Windows.Search(ctx, q)
	if err != nil && passing(err) {
		return out, busy(err)
	}
	if err != nil {
		return out, answerable(err)
	}
	out = api.Found{Family: q.Schema, Hits: []operation.JSON[api.Hit]{}, Next: page.Next}
	if q.After == "" {
		out.Total, out.AtLeast = &page.Total, page.Total >= search.MaxTotal
	}
	for _, h := range page.Hits {
		hit, err := json.Marshal(api.Hit{Day: h.Day, ID: h.ID, Document: h.Body})
		if err != nil {
			return out, err
		}
		out.Hits = append(out.Hits, hit)
	}
	return out, nil
}
