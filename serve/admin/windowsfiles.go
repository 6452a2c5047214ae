package admin

import (
	"net/http"

	"github.com/tidemill/tidemill/systems/windows/gdelt"
)

// Feed is an intake of windows that reads files.
type Feed struct {
	Name string // of its pipeline
	*gdelt.Source
}

// shownFeed is how the reading of files stands.
type shownFeed struct {
	Feed   string      `json:"feed"`
	From   string      `json:"from"`
	Files  []shownFile `json:"files"`       // that are being read
	Done   uint64      `json:"done"`        // files that were read, ever
	Broken uint64      `json:"refused"`     // files that were refused, ever
	Rows   uint64      `json:"rows"`        // records of files that were accepted, ever
	Idless uint64      `json:"idless_rows"` // rows without an id, which are skipped
	Lost   uint64      `json:"lost_rows"`   // that were given up with their files
	Unread int         `json:"unread"`      // in the folder that are no files, links for instance
}

// shownFile is a file of which rows have not ended.
type shownFile struct {
	Name    string `json:"name"`
	Batch   string `json:"batch"`
	Rows    uint64 `json:"rows"`
	Pending uint64 `json:"pending"`           // rows that have not ended
	Trouble string `json:"trouble,omitempty"` // why it cannot be read at the moment
}

// windowFiles shows where files come from, and those that are being read.
func (a *API) windowFiles(w http.ResponseWriter, r *http.Request) error {
	feeds := []shownFeed{}
	for _, f := range a.WindowsFiles {
		t, err := f.Totals(r.Context())
		if err != nil {
			return err
		}
		reading, err := f.Reading(r.Context())
		if err != nil {
			return err
		}
		shown := shownFeed{f.Name, f.String(), []shownFile{}, t.Done, t.Broken, t.Accepted, t.Idless, t.Lost, f.Unread()}
		for _, one := range reading {
			shown.Files = append(shown.Files, shownFile{one.Name, one.Batch, one.Rows, one.Pending, one.Trouble})
		}
		feeds = append(feeds, shown)
	}
	write(w, http.StatusOK, map[string]any{"feeds": feeds})
	return nil
}

// giveUpFile ends a file that cannot be read any more. The rows of it that have not ended are
// lost, and the books say so.
func (a *API) giveUpFile(w http.ResponseWriter, r *http.Request) error {
	name := r.FormValue("file")
	for _, f := range a.WindowsFiles {
		reading, err := f.Reading(r.Context())
		if err != nil {
			return err
		}
		for _, one := range reading {
			if one.Name != name || one.Trouble == "" {
				continue
			}
			lost, err := f.GiveUp(r.Context(), name, "given up by hand: "+one.Trouble)
			if err != nil {
				return answerable(err)
			}
			write(w, http.StatusOK, map[string]any{"file": name, "lost": lost})
			return nil
		}
	}
	return refused(http.StatusNotFound, "no file %q is in trouble: only one that cannot be read is given up, by the instance that reads it; `tidemill window files` shows them", name)
}
