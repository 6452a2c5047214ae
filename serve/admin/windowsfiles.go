package admin

import (
	"context"
	"net/http"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
)

// Feed is an intake of windows that reads files.
type Feed struct {
	Name string // of its pipeline
	*gdelt.Source
}

// windowFiles shows where files come from, and those that are being read.
func (a *API) windowFiles(ctx context.Context, _ *operation.None) (api.Feeds, error) {
	out := api.Feeds{Feeds: []api.Feed{}}
	for _, f := range a.WindowsFiles {
		t, err := f.Totals(ctx)
		if err != nil {
			return out, err
		}
		reading, err := f.Reading(ctx)
		if err != nil {
			return out, err
		}
		shown := api.Feed{Feed: f.Name, From: f.String(), Files: []api.FeedFile{}, Done: t.Done, Broken: t.Broken, Rows: t.Accepted, Idless: t.Idless, Lost: t.Lost, Unread: f.Unread()}
		for _, one := range reading {
			shown.Files = append(shown.Files, api.FeedFile{Name: one.Name, Batch: one.Batch, Rows: one.Rows, Pending: one.Pending, Trouble: one.Trouble})
		}
		out.Feeds = append(out.Feeds, shown)
	}
	return out, nil
}

// giveUpFile ends a file that cannot be read any more. The rows of it that have not ended are
// lost, and the books say so.
func (a *API) giveUpFile(ctx context.Context, q *api.OneFile) (out api.GivenUpFile, err error) {
	for _, f := range a.WindowsFiles {
		reading, err := f.Reading(ctx)
		if err != nil {
			return out, err
		}
		for _, one := range reading {
			if one.Name != q.File || one.Trouble == "" {
				continue
			}
			lost, err := f.GiveUp(ctx, q.File, "given up by hand: "+one.Trouble)
			return api.GivenUpFile{File: q.File, Lost: lost}, answerable(err)
		}
	}
	return out, refused(http.StatusNotFound, "no file %q is in trouble: only one that cannot be read is given up, by the instance that reads it; `tidemill window files` shows them", q.File)
}
