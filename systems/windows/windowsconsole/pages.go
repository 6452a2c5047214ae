// Package windowsconsole is the pages of windows in the console.
package windowsconsole

import (
	"context"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

//go:embed templates/*.html
var templates embed.FS

const section = "windows"

var crumbs = []page.Link{{Text: "Windows", Href: page.Address("windows")}}

// Pages are windows, their records, files and the index behind them.
var Pages = &page.Set{
	Name:      windows.Name,
	Templates: templates,
	Places:    []page.Place{{Section: section, Text: "Windows", Path: "windows", Key: "s", Op: windowsapi.ListWindows.ID}},
	Pages:     []page.Page{{Path: "windows", Show: showWindows}, {Path: "windows/one", Show: showWindow}, {Path: "windows/files", Show: showFiles}, {Path: "windows/search", Show: showSearch}},
	Actions:   []*page.Action{closeWindow, replayWindow, giveUpFile},
	Funcs: template.FuncMap{"states": func() []page.Fact { return states }, "waits": waitsFor, "windowsTable": windowsTable, "fileAt": fileAt, "took": func(s float64) string { return page.Span(&s) }, "size": func(n int64) uint64 { return uint64(max(n, 0)) },
		"closeAt": func(w windowsapi.Window) string {
			return page.Query(page.Address("windows", "close"), url.Values{"batch": {w.Batch}, "project": {w.Project}})
		},
		"replayAt": func(w windowsapi.Window) string {
			return page.Query(page.Address("windows", "replay"), url.Values{"id": {w.ID}, "project": {w.Project}})
		}},
	Said: map[string]string{"windowclosed": "The window is closed: what is there is delivered.", "windowreplayed": "It is delivered again.", "filegivenup": "The file is given up; the books say what was lost."},
	Things: map[string]func(map[string]string) string{
		windowsapi.GetWindow.ID: func(p map[string]string) string { return oneAddress(p["id"], p["project"]) },
		windowsapi.GetRevision.ID: func(p map[string]string) string {
			return oneAddress(p["batch"]+"/"+p["revision"], p["project"])
		},
	},
}

// states are those of windows.
var states = []page.Fact{
	{Name: "Active", Value: "active", Help: "It is open: records come in, until its time is over or it has all that was expected."},
	{Name: "Ready", Value: "ready", Help: "It is closed, and waits to be delivered."},
	{Name: "Leased", Value: "leased", Help: "An instance delivers it."},
	{Name: "Parked", Value: "parked", Help: "It was tried as often as it may be: replay it when the cause is mended."},
}

// waitsFor says in a sentence what a window waits for.
func waitsFor(word string) string {
	if s := map[string]string{
		"records": "It waits for more records, until it is due.", "retry": "It is tried again then.", "older": "An older window of its batch goes first.", "resume": "The delivery is paused: somebody has to resume it.",
		"start": "Nothing delivers now: no instance runs the delivery.", "topics": "What it is delivered to does not take anything now.", "turn": "Other windows are delivered first.", "delivery": "It is being delivered.",
		"lease": "The instance that had it has not come back: it goes on when its lease ends.", "replay": "It was given up: replay it when the cause is mended.",
	}[word]; s != "" {
		return s
	}
	return word
}

// oneAddress is the page of a window, whose id is its batch and its revision.
func oneAddress(id, project string) string {
	at := max(strings.LastIndexByte(id, '/'), 0) // batches may have slashes
	return page.Query(page.Address("windows", "one"), url.Values{"batch": {id[:at]}, "revision": {strings.TrimPrefix(id[at:], "/")}, "project": {project}})
}

// idOf is the window that an address names, as oneAddress or by its id; empty: none.
func idOf(q url.Values) string {
	if id := q.Get("id"); id != "" {
		return id
	}
	if batch, revision := q.Get("batch"), q.Get("revision"); batch != "" && revision != "" {
		return batch + "/" + revision
	}
	return ""
}

func fileAt(name string) string {
	return page.Query(page.Address("windows", "give-up"), url.Values{"file": {name}})
}

// windowsPage is all windows.
type windowsPage struct {
	Filter windowsapi.WindowFilter
	Active []page.Link
	Status page.Part[windowsapi.Windows]
	List   page.Part[operation.Paged[windowsapi.Window]]

	Changes *page.Part[[]api.Change]
}

func showWindows(v *page.Visit) (*page.View, error) {
	p := &windowsPage{}
	if err := v.Filter(windowsapi.ListWindows.Description, &p.Filter); err != nil {
		return nil, err
	}
	v.Paging(&p.Filter.Page)
	p.Status = page.Look(v, func(ctx context.Context) (windowsapi.Windows, error) {
		return windowsapi.GetWindows.Call(ctx, v.API, &operation.None{})
	})
	p.List = page.Look(v, func(ctx context.Context) (operation.Paged[windowsapi.Window], error) {
		return windowsapi.ListWindows.Page(ctx, v.API, &p.Filter)
	})
	p.Active, p.Changes = v.Active("state", "batch", "project"), changes(v, "")
	return &page.View{File: "windows", Live: v.Newest(), Title: "Windows", Section: section, Body: p}, nil
}

// windowPage is one window.
type windowPage struct {
	windowsapi.StandingWindow
	Shown   page.Part[records]
	Changes *page.Part[[]api.Change]
}

// records are a page of them.
type records struct {
	All  []record
	Next string // where the next page begins; empty: there is none
	Lost int
}

type record struct {
	windowsapi.Record
	Payload *page.Payload
}

// recordsShown is how many records a page has.
const recordsShown = 25

// changes are the last ones of the windows of a batch, or of all.
func changes(v *page.Visit, batch string) *page.Part[[]api.Change] {
	by := []string{windowsapi.CloseWindow.ID, windowsapi.ReplayWindows.ID}
	if batch == "" {
		by = append(by, windowsapi.AdoptWindows.ID, windowsapi.GiveUpFile.ID)
	}
	return page.LastChanges(v, batch, by...)
}

func showWindow(v *page.Visit) (*page.View, error) {
	one := windowsapi.OneWindow{ID: idOf(v.Query()), Project: v.Query().Get("project")}
	if one.ID == "" {
		return nil, operation.Refuse(http.StatusBadRequest, "Say which: batch=…&revision=…. Windows lists them.")
	}
	w, err := page.Call(v, windowsapi.GetWindow, &one)
	if err != nil {
		return nil, err
	}
	p := &windowPage{StandingWindow: w, Changes: changes(v, w.Batch)}
	p.Shown = page.Look(v, func(ctx context.Context) (out records, err error) {
		got, err := windowsapi.GetRecords.Call(ctx, v.API, &windowsapi.RecordsOf{OneWindow: one, Page: windowsapi.Page{Size: recordsShown, After: v.Query().Get("after")}})
		out.Next, out.Lost = got.Next, got.Lost
		for _, raw := range got.Records {
			var r record
			if err := json.Unmarshal(raw, &r.Record); err != nil {
				return out, err
			}
			r.Payload = page.NewPayload(r.Record.Payload, r.PayloadBase64, "")
			out.All = append(out.All, r)
		}
		return out, err
	})
	return &page.View{File: "window", Title: "Window " + page.Cut(w.ID), Section: section, Crumbs: crumbs, Body: p}, nil
}

func showFiles(v *page.Visit) (*page.View, error) {
	p := page.Look(v, func(ctx context.Context) (windowsapi.Feeds, error) {
		return windowsapi.ListFiles.Call(ctx, v.API, &operation.None{})
	})
	return &page.View{File: "files", Title: "Files", Section: section, Live: true, Crumbs: crumbs, Body: p}, nil
}

// searchPage is what the index has.
type searchPage struct {
	Query windowsapi.SearchQuery
	Asked bool
	Hits  page.Part[[]hit]
	Total string
	Next  string
	Prev  string
}

type hit struct {
	Day, ID string
	Payload *page.Payload
}

func showSearch(v *page.Visit) (*page.View, error) {
	if err := v.Allowed("Searching", windowsapi.Search.ID); err != nil {
		return nil, err
	}
	p := &searchPage{}
	if err := v.Filter(windowsapi.Search.Description, &p.Query); err != nil {
		return nil, err
	}
	if p.Query.Family == "" {
		p.Query.Family = "events"
	}
	p.Query.Size = recordsShown
	if p.Asked = v.Query().Has("q") || p.Query.After+p.Query.Before != ""; p.Asked {
		p.Hits = page.Look(v, func(ctx context.Context) (all []hit, err error) {
			got, err := windowsapi.Search.Call(ctx, v.API, &p.Query)
			if p.Next, p.Prev = got.Next, got.Previous; got.Total != nil {
				if p.Total = page.Number(*got.Total); got.AtLeast {
					p.Total += " or more"
				}
			}
			for _, raw := range got.Hits {
				var h windowsapi.Hit
				if err := json.Unmarshal(raw, &h); err != nil {
					return all, err
				}
				all = append(all, hit{h.Day, h.ID, page.NewPayload(string(h.Document), "", "")})
			}
			return all, err
		})
	}
	return &page.View{File: "search", Title: "Search", Section: section, Crumbs: crumbs, Body: p}, nil
}

var closeWindow = &page.Action{Path: "windows/close", Op: windowsapi.CloseWindow.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		q := &windowsapi.OneBatch{Batch: v.Query().Get("batch"), Project: v.Query().Get("project")}
		return &page.Question{Title: "Close the window of " + page.Cut(q.Batch) + " now?", Button: "Close the window", Section: section, Back: page.Address("windows"),
			Texts: []string{"What is there is delivered. Records that come later go into a window of their own."},
			CLI:   page.Command("window", "close", q.Batch), Request: page.Request(windowsapi.CloseWindow, q)}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		_, err := page.Change(v, windowsapi.CloseWindow, &windowsapi.OneBatch{Batch: v.Query().Get("batch"), Project: v.Query().Get("project")})
		return page.Done(page.Address("windows"), "windowclosed"), err
	}}

var replayWindow = &page.Action{Path: "windows/replay", Op: windowsapi.ReplayWindows.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		id := v.Query().Get("id")
		q := &windowsapi.WindowMove{IDs: []string{id}, Project: v.Query().Get("project")}
		return &page.Question{Title: "Deliver the window " + page.Cut(id) + " again?", Button: "Replay the window", Section: section, Back: oneAddress(id, q.Project),
			Texts: []string{"It is tried as often as a new one. Records that were delivered before the failure may be delivered twice, unless topics are written in transactions."},
			CLI:   page.Command("window", "replay", id), Request: page.Request(windowsapi.ReplayWindows, q)}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		got, err := page.Change(v, windowsapi.ReplayWindows, &windowsapi.WindowMove{IDs: []string{v.Query().Get("id")}, Project: v.Query().Get("project")})
		if err == nil && got.Count == 0 {
			return "", operation.Refuse(http.StatusConflict, "The window is not parked any more. Nothing was changed.")
		}
		return page.Done(page.Address("windows"), "windowreplayed"), err
	}}

var giveUpFile = &page.Action{Path: "windows/give-up", Op: windowsapi.GiveUpFile.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		q := &windowsapi.FileToGiveUp{OneFile: windowsapi.OneFile{File: v.Query().Get("file")}, DryRun: true}
		would, err := page.Call(v, windowsapi.GiveUpFile, q)
		if err != nil {
			return nil, err
		}
		q.DryRun = false
		n := page.Number(would.Lost)
		return &page.Question{Title: "Give up the file " + page.Cut(would.File) + "?", Button: "Give up " + n + " rows", Careful: true, Word: strconv.FormatUint(would.Lost, 10), Section: section, Back: page.Address("windows", "files"),
			Texts: []string{n + " of its rows have not ended. They are lost, and the books say so from then on. If the file is put back as it was, its reading goes on instead."},
			CLI:   page.Command("window", "give-up", would.File), Request: page.Request(windowsapi.GiveUpFile, q)}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		file := windowsapi.OneFile{File: v.Query().Get("file")}
		would, err := page.Call(v, windowsapi.GiveUpFile, &windowsapi.FileToGiveUp{OneFile: file, DryRun: true})
		if err != nil {
			return "", err
		}
		if err := v.Typed(strconv.FormatUint(would.Lost, 10)); err != nil {
			return "", err
		}
		_, err = page.Change(v, windowsapi.GiveUpFile, &windowsapi.FileToGiveUp{OneFile: file})
		return page.Done(page.Address("windows", "files"), "filegivenup"), err
	}}
