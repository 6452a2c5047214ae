package console

import (
	"context"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/console/page"
)

// found is what a text is the id or the name of.
type found struct {
	Text    string
	Things  page.Part[api.FoundThings]
	ScanAt  string                  // the page that looks through all jobs; empty: the caller may not
	Scanned *page.Part[api.Scanned] // nil: that was not asked for
	GoOn    string                  // the page that goes on where it stopped
}

// scanWithin is how long a page waits for a scan, which reads for two seconds.
const scanWithin = 5 * time.Second

// around are the characters that a text is pasted with by mistake: those of quotations, lists and code, and those
// that nobody sees.
const around = " \t\r\n\u00a0\u200b\u200c\u200d\u2060\ufeff\"'`“”‘’«»<>()[]{},;"

// showFind looks for what the one box was given. One hit that has a page is gone to straight away, and so is a page of
// that name.
func showFind(v *page.Visit) (*page.View, error) {
	q := v.Query()
	f := &found{Text: strings.TrimSpace(q.Get("q"))}
	view := &page.View{File: "find", Title: "Find", Body: f}
	if f.Text == "" {
		return view, nil
	}
	if q.Get("scan") != "" {
		return view, f.scan(v)
	}
	look := func(text string) page.Part[api.FoundThings] {
		return page.Look(v, func(ctx context.Context) (api.FoundThings, error) {
			return api.Find.Call(ctx, v.API, &api.FindQuery{ID: text, System: q.Get("system"), Owner: q.Get("owner")})
		})
	}
	f.Things = look(f.Text)
	if clean := strings.Trim(f.Text, around); clean != "" && clean != f.Text && len(f.Things.Has.Hits) == 0 {
		if other := look(clean); len(other.Has.Hits) > 0 {
			f.Text, f.Things = clean, other
		}
	}
	if hits := f.Things.Has.Hits; len(hits) == 1 {
		if at := v.ThingAt(hits[0]); at != "" {
			v.Redirect(at)
			return nil, nil
		}
	} else if at := v.PlaceAt(f.Text); at != "" && len(hits) == 0 {
		v.Redirect(at)
		return nil, nil
	}
	if v.May(api.Scan.ID) {
		f.ScanAt = v.Here("scan", "yes")
	}
	return view, nil
}

// scan looks through the jobs of all queues, as many as one request does.
func (f *found) scan(v *page.Visit) error {
	if err := v.Allowed("To look through all jobs", api.Scan.ID); err != nil {
		return err
	}
	q := v.Query()
	ctx, cancel := context.WithTimeout(v.R.Context(), scanWithin)
	defer cancel()
	has, err := api.Scan.Call(ctx, v.API, &api.ScanQuery{Text: f.Text, Owner: q.Get("owner"), Cursor: q.Get("cursor")})
	f.Scanned = &page.Part[api.Scanned]{Has: has, Problem: page.Problem(err)}
	if has.Next != "" {
		f.GoOn = v.Here("cursor", has.Next)
	}
	return nil
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
	if err := v.Filter(api.Explain.Description, q); err != nil {
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
