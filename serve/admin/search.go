package admin

import (
	"encoding/json"
	"net/http"

	"github.com/tidemill/tidemill/systems/windows/search"
)

// found is a page of hits.
type found struct {
	Family  string `json:"family"`
	Total   *int   `json:"total,omitempty"`    // how many match; pages after the first do not say it
	AtLeast bool   `json:"at_least,omitempty"` // there may be more than total
	Hits    []hit  `json:"hits"`
	Next    string `json:"next,omitempty"` // ?after= of the next page; none: that was the last
}

// hit is one document found.
type hit struct {
	Day      string          `json:"day"`
	ID       string          `json:"id"`
	Document json.RawMessage `json:"document"`
}

// search asks the index: ?q= in its language, ?family= events (the default) or mentions, by
// time ?since= and ?until=; the newest first, or with ?oldest=true the oldest;
// ?size= hits of a page, and ?after= the next of the page before.
func (a *API) search(w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	q := search.Query{Schema: v.Get("family"), Text: v.Get("q"), After: v.Get("after")}
	if q.Schema == "" {
		q.Schema = "events"
	}
	if len(a.Windows.Schemas()) > 0 { // else Search says what is missing
		family, err := a.Windows.Family(q.Schema)
		if err != nil {
			return answerable(err)
		}
		q.Schema = family
	}
	switch v.Get("oldest") {
	case "", "false":
	case "true":
		q.Oldest = true
	default:
		return refused(http.StatusBadRequest, "oldest=%q: want true or false", v.Get("oldest"))
	}
	var err error
	if q.From, q.To, err = a.span(v.Get("since"), v.Get("until")); err != nil {
		return err
	}
	if q.Size, err = number(v.Get("size"), "size"); err != nil {
		return err
	}
	page, err := a.Windows.Search(r.Context(), q)
	if err != nil && passing(err) {
		w.Header().Set("Retry-After", "5")
		return refused(http.StatusServiceUnavailable, "%v", err)
	}
	if err != nil {
		return answerable(err)
	}
	out := found{Family: q.Schema, Hits: []hit{}, Next: page.Next}
	if q.After == "" {
		out.Total, out.AtLeast = &page.Total, page.Total >= search.MaxTotal
	}
	for _, h := range page.Hits {
		out.Hits = append(out.Hits, hit{h.Day, h.ID, h.Body})
	}
	write(w, http.StatusOK, out)
	return nil
}
