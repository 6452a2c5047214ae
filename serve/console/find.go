package console

import (
	"context"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/console/page"
)

// found is what a text is the id or the name of.
type found struct {
	Text   string
	Things page.Part[api.FoundThings]
}

// showFind looks for what the one box was given. One hit that has a page is gone to straight away.
func showFind(v *page.Visit) (*page.View, error) {
	q := v.Query()
	f := &found{Text: strings.TrimSpace(q.Get("q"))}
	if f.Text != "" {
		f.Things = page.Look(v, func(ctx context.Context) (api.FoundThings, error) {
			return api.Find.Call(ctx, v.API, &api.FindQuery{ID: f.Text, System: q.Get("system"), Owner: q.Get("owner")})
		})
		if hits := f.Things.Has.Hits; len(hits) == 1 {
			if at := v.ThingAt(hits[0]); at != "" {
				v.Redirect(at)
				return nil, nil
			}
		}
	}
	return &page.View{File: "find", Title: "Find", Body: f}, nil
}

// explained is the life of an event.
type explained struct {
	System, Owner, ID string // that are asked for
	Life              api.Explanation
	CLI, Request      string
}

// Text is the life as text, to be pasted.
func (e *explained) Text() string { return e.Life.Text() }

func showExplain(v *page.Visit) (*page.View, error) {
	q := &api.OneEvent{}
	if err := api.Explain.Parse(v.Query(), q); err != nil {
		return nil, err
	}
	q.Format = ""
	e := &explained{System: q.System, Owner: q.Owner, ID: q.ID}
	if q.ID == "" || q.System == "" {
		return &page.View{File: "explain", Title: "Explain", Body: e}, nil
	}
	var err error
	if e.Life, err = page.Call(v, api.Explain, q); err != nil {
		return nil, err
	}
	words := []string{"explain", q.ID, "--system", q.System}
	if q.Owner != "" {
		words = append(words, "--owner", q.Owner)
	}
	e.CLI, e.Request = page.Command(words...), page.Request(api.Explain, q)
	return &page.View{File: "explain", Title: "Explain " + page.Cut(q.ID), Live: e.Life.Fate == api.FateInFlight, Body: e}, nil
}
