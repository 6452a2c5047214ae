package windowsapi

import (
	"context"
	"net/http"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
)

// FileSource is an intake of windows that reads files.
type FileSource struct {
	Name string // of its pipeline
	*gdelt.Source
}

// windowFiles shows where files come from, and those that are being read.
func (a *API) windowFiles(ctx context.Context, _ *operation.None) (Feeds, error) {
	out := Feeds{Feeds: []Feed{}}
	for _, f := range a.Files {
		t, err := f.Totals(ctx)
		if err != nil {
			return out, err
		}
		reading, err := f.Reading(ctx)
		if err != nil {
			return out, err
		}
		shown := Feed{Feed: f.Name, From: f.String(), Files: []FeedFile{}, Done: t.Done, Broken: t.Broken, Rows: t.Accepted, Idless: t.Idless, Lost: t.Lost, Unread: f.Unread()}
		for _, one := range reading {
			shown.Files = append(shown.Files, FeedFile{Name: one.Name, Batch: one.Batch, Rows: one.Rows, Pending: one.Pending, Trouble: one.Trouble})
		}
		out.Feeds = append(out.Feeds, shown)
	}
	return out, nil
}

// giveUpFile ends a file that cannot be read any more. The rows of it that have not ended are
// lost, and the books say so; a dry run only counts them.
func (a *API) giveUpFile(ctx context.Context, q *FileToGiveUp) (out GivenUpFile, err error) {
	for _, f := range a.Files {
		reading, err := f.Reading(ctx)
		if err != nil {
			return out, err
		}
		for _, one := range reading {
			if one.Name != q.File || one.Trouble == "" || one.Pending == 0 {
				continue
			}
			if q.DryRun {
				return GivenUpFile{File: q.File, Lost: one.Pending}, nil
			}
			lost, err := f.GiveUp(ctx, q.File, "given up by hand: "+one.Trouble)
			return GivenUpFile{File: q.File, Lost: lost}, answer.Answerable(err)
		}
	}
	return out, operation.Refuse(http.StatusNotFound, "no file %q is in trouble: only one that cannot be read is given up, by the instance that reads it; `tidemill window files` shows them", q.File)
}
