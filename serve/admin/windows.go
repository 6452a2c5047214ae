package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// windowRoutes are what the API does of windows and of the index behind them. A window's id
// is its batch id and its revision with a slash between: both are a part of the path, or the
// id is one part with its slash escaped.
func (a *API) windowRoutes() []Route {
	return []Route{
		{"GET", "windows", a.windows, query("id", "batch", "project", "state", "max")},
		{"GET", "windows/status", a.windowStatus, query()},
		{"GET", "windows/{id}", a.window, query("project")},
		{"GET", "windows/{id}/records", a.windowRecords, query("project", "size", "after")},
		{"GET", "windows/{batch}/{revision}", a.window, query("project")},
		{"GET", "windows/{batch}/{revision}/records", a.windowRecords, query("project", "size", "after")},
		{"POST", "windows/{batch}/close", a.closeWindow, form("project")},
		{"POST", "windows/replay", a.replayWindows, form(append([]string{"id", "batch", "project", "state", "max"}, moving...)...)},
		{"POST", "windows/records", a.sendRecords, query("batch", "kind", "project", "expect")},
		{"POST", "windows/adopt", a.adoptWindows, form("prefix", "project")},
		{"GET", "windows/files", a.windowFiles, query()},
		{"POST", "windows/files/give-up", a.giveUpFile, form("file")},
		{"GET", "search", a.search, query("q", "family", "since", "until", "oldest", "size", "after")},
	}
}

// shownWindow is a window as the API shows it. Ages are by the store's clock.
type shownWindow struct {
	ID       string       `json:"id"`
	Batch    string       `json:"batch"`
	Project  string       `json:"project"` // its name; one that is not known any more by its id
	Revision uint64       `json:"revision"`
	State    window.State `json:"state"` // active, ready, leased, parked
	Records  int64        `json:"records"`
	Bytes    int64        `json:"bytes"`            // of their bodies, about
	Expect   int64        `json:"expect,omitempty"` // records there are to be, where somebody told
	Lost     int64        `json:"lost"`             // records that were found missing
	Opened   time.Time    `json:"opened_at"`
	Age      float64      `json:"age_seconds"` // since it was opened
	Closed   *time.Time   `json:"closed_at,omitempty"`
	Why      window.Why   `json:"closed_by,omitempty"`    // time, count, hand
	Due      *time.Time   `json:"due_at,omitempty"`       // active: it is closed then; ready: not handed out before
	Owner    string       `json:"owner,omitempty"`        // leased: who has it
	Lease    *time.Time   `json:"leased_until,omitempty"` // leased: unless it is renewed
	Handed   int          `json:"handed"`                 // hand-outs since it was closed or replayed
	Tries    int          `json:"tries"`                  // failed, among them
	Replays  int          `json:"replays"`
	Failed   *time.Time   `json:"failed_at,omitempty"` // the last failed try
	Kind     string       `json:"kind,omitempty"`      // of that
	Error    string       `json:"error,omitempty"`     // of that
}

func showWindow(i *window.Info, now time.Time, names map[uuid.UUID]string) shownWindow {
	batch := record.ParseBatch(i.Batch)
	out := shownWindow{ID: shownID(i.ID), Batch: batch.ID(), Project: nameOf(batch, names), Revision: i.Revision, State: i.State, Records: i.Records, Bytes: i.Bytes, Expect: i.Expect, Lost: i.Lost,
		Opened: i.Opened.UTC(), Age: age(i.Opened, now), Closed: when(i.Closed), Why: i.Why, Handed: i.Handed, Tries: i.Tries, Replays: i.Replays,
		Failed: when(i.Failed), Error: i.Cause}
	if i.State == window.Leased {
		out.Owner, out.Lease = i.Owner, when(i.Due)
	} else {
		out.Due = when(i.Due)
	}
	if !i.Failed.IsZero() {
		out.Kind = i.Kind.String()
	}
	return out
}

// age is how long ago something was, in seconds; 0: it was not.
func age(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at).Seconds())
}

// windows lists windows, the oldest first.
func (a *API) windows(w http.ResponseWriter, r *http.Request) error {
	c, err := a.windowsOf(r)
	if err != nil {
		return err
	}
	st, err := a.Windows.Windows().Stats(r.Context()) // for the clock
	if err != nil {
		return err
	}
	names, err := a.projectNames(r.Context())
	if err != nil {
		return answerable(err)
	}
	out := stream(w, r)
	for i, err := range a.windowsChosen(r.Context(), c) {
		if err == nil {
			err = out.add(showWindow(i, st.Now, names))
		}
		if err != nil {
			return out.end(answerable(err))
		}
	}
	return nil
}

// standing is a window with why it is where it is.
type standing struct {
	shownWindow
	Waits   windows.Wait     `json:"waits_for"`
	Until   *time.Time       `json:"waits_until,omitempty"`
	Behind  string           `json:"behind,omitempty"`  // the window that goes first
	Because string           `json:"because,omitempty"` // nothing can be sent
	Kinds   map[string]int64 `json:"kinds"`             // records by kind, of those that were counted
	Damaged int64            `json:"damaged"`           // of those, too
	Counted int64            `json:"counted"`           // records that were looked at: not all of a large window
}

// window shows one window, and why it is where it is.
func (a *API) window(w http.ResponseWriter, r *http.Request) error {
	id, err := a.windowID(r)
	if err != nil {
		return err
	}
	st, err := a.Windows.Look(r.Context(), id)
	if errors.Is(err, window.ErrNotFound) {
		err = window.NotFound(shownID(id))
	}
	if err != nil {
		return answerable(err)
	}
	names, err := a.projectNames(r.Context())
	if err != nil {
		return answerable(err)
	}
	write(w, http.StatusOK, standing{shownWindow: showWindow(st.Info, st.Now, names), Waits: st.Waits, Until: when(st.Until), Behind: shownID(st.Behind), Because: st.Because,
		Kinds: st.Kinds, Damaged: st.Damaged, Counted: st.Counted})
	return nil
}

// windowRecord is a record of a window, byte for byte as received.
type windowRecord struct {
	Kind          string `json:"kind"`
	ID            string `json:"id"`
	Qualifier     string `json:"qualifier,omitempty"`
	Payload       string `json:"payload,omitempty"`
	PayloadBase64 string `json:"payload_base64,omitempty"`
	Damaged       string `json:"damaged,omitempty"` // its stored bytes are not those that were put
}

// Records of a page: those that are shown without ?size=, and at the most.
const (
	recordsShown = 100
	recordsMost  = 1000
)

// windowRecords shows a page of a window's records: at most ?size= of them, and fewer where
// they are large. ?after= is the next of the page before.
func (a *API) windowRecords(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	size, err := number(q.Get("size"), "size")
	switch {
	case err != nil:
		return err
	case size > recordsMost:
		return refused(http.StatusBadRequest, "size=%d: a page has at most %d records; next of its answer is where the one after it begins", size, recordsMost)
	case size == 0:
		size = recordsShown
	}
	id, err := a.windowID(r)
	if err != nil {
		return err
	}
	records := make([]window.Record, size)
	page, err := a.Windows.Windows().Peek(r.Context(), id, q.Get("after"), records)
	if errors.Is(err, window.ErrNotFound) {
		err = window.NotFound(shownID(id))
	}
	if err != nil {
		return answerable(err)
	}
	out := struct {
		Records []windowRecord `json:"records"`
		Next    string         `json:"next,omitempty"`
		Lost    int            `json:"lost,omitempty"` // found missing; the last page alone says so
	}{[]windowRecord{}, page.Next, page.Lost}
	for i := range records[:page.N] {
		rec := &records[i]
		shown := windowRecord{Kind: rec.Kind, ID: rec.ID, Qualifier: rec.Qualifier, Damaged: rec.Damaged}
		shown.Payload, shown.PayloadBase64 = text(rec.Body)
		out.Records = append(out.Records, shown)
	}
	write(w, http.StatusOK, out)
	return nil
}

// closeWindow closes what collects of a batch id, before its time is over.
func (a *API) closeWindow(w http.ResponseWriter, r *http.Request) error {
	c, err := a.windowsOf(r)
	if err != nil {
		return err
	}
	c.state, c.batch, c.max = window.Active, r.PathValue("batch"), 0
	found, err := a.windowsFound(r.Context(), c)
	if err != nil {
		return err
	}
	closed := false
	if len(found) > 0 {
		if closed, err = a.Windows.Windows().CloseNow(r.Context(), found[0].Batch); err != nil {
			return answerable(err)
		}
	}
	if !closed {
		return refused(http.StatusNotFound, "no window of batch %q collects: it was closed, or none was opened; `tidemill window list --batch` shows those there are", c.batch)
	}
	names, err := a.projectNames(r.Context())
	if err != nil {
		return answerable(err)
	}
	project := nameOf(record.ParseBatch(found[0].Batch), names)
	a.Log.InfoContext(r.Context(), "window closed by hand", "batch", c.batch, "project", project)
	write(w, http.StatusOK, map[string]any{"batch": c.batch, "project": project, "closed": true})
	return nil
}

// AdoptedWindows is what was taken over of another program.
type AdoptedWindows struct {
	Batches int `json:"batches"`
	Records int `json:"records"`
	Lost    int `json:"lost"` // ids whose record was gone: they are booked as dead
}

// adoptWindows takes over the batches of the program that this replaces, into ?project=.
func (a *API) adoptWindows(w http.ResponseWriter, r *http.Request) error {
	if a.AdoptWindows == nil {
		return refused(http.StatusConflict, "windows are not on a Redis here, so that there is nothing to take over: set windows.redis.url to the Redis of the other program")
	}
	project, err := a.windowsProject(r.Context(), r.FormValue("project"))
	if err != nil {
		return err
	}
	done, err := a.AdoptWindows(r.Context(), r.FormValue("prefix"), project)
	if err != nil {
		return answerable(err)
	}
	a.Log.InfoContext(r.Context(), "batches of another program taken over by hand", "batches", done.Batches, "records", done.Records, "lost", done.Lost)
	write(w, http.StatusOK, done)
	return nil
}

// replayedAtOnce is how many windows one call of the store makes ready.
const replayedAtOnce = 500

// replayFound makes what was found for a choice ready again, and says how many, also beside an error.
func (a *API) replayFound(ctx context.Context, c windowChoice, found []*window.Info) (count int, err error) {
	if len(found) == 0 {
		return 0, nil
	}
	filters := []window.Filter{{State: window.Parked, Max: c.max}}
	if len(c.ids) == 0 && c.batch != "" {
		filters[0].Batch = found[0].Batch
	} else if len(c.ids) > 0 || c.project != nil {
		filters = nil
		for some := range slices.Chunk(found, replayedAtOnce) {
			f := window.Filter{State: window.Parked}
			for _, i := range some {
				f.IDs = append(f.IDs, i.ID)
			}
			filters = append(filters, f)
		}
	}
	for _, f := range filters {
		n, err := a.Windows.Windows().Replay(ctx, f)
		if count += n; err != nil {
			return count, err
		}
	}
	return count, nil
}

// replayWindows makes the chosen parked windows ready again; with ?dry_run it only counts
// them. To mean all of them is to say so.
func (a *API) replayWindows(w http.ResponseWriter, r *http.Request) error {
	c, err := a.windowsOf(r)
	if err != nil {
		return err
	}
	if c.state == "" {
		c.state = window.Parked
	}
	all := r.Form.Get("all") == "true"
	switch {
	case c.state != window.Parked:
		return refused(http.StatusBadRequest, "state=%s: only parked windows can be replayed; those of other states are on their way", c.state)
	case len(c.ids) == 0 && c.batch == "" && c.max == 0 && !all:
		return refused(http.StatusBadRequest, "say which windows to replay: id, batch, or all, which are those that are parked")
	}
	found, err := a.windowsFound(r.Context(), c)
	if err != nil {
		return err
	}
	count, dry := len(found), r.Form.Get("dry_run") == "true"
	if !dry {
		if count, err = a.replayFound(r.Context(), c, found); err != nil && count > 0 {
			return refused(http.StatusServiceUnavailable, "after %d windows: %v", count, err)
		} else if err != nil {
			return answerable(err)
		}
	}
	a.Log.InfoContext(r.Context(), "windows replayed by hand", "count", count, "batch", c.batch, "ids", strings.Join(c.ids[:min(len(c.ids), 10)], " "), "dry_run", dry)
	write(w, http.StatusOK, map[string]int{"count": count})
	return nil
}

// windowsState is how the system stands.
type windowsState struct {
	States     map[window.State]windowDepth `json:"states"`
	Lost       uint64                       `json:"lost"`     // records ever found missing, booked as dead
	Closed     uint64                       `json:"closed"`   // windows that this instance closed because they were over
	Delivery   pipelineState                `json:"delivery"` // in this instance
	Processors []processorState             `json:"processors"`
}

// windowDepth is how much there is in one state.
type windowDepth struct {
	Windows int64      `json:"windows"`
	Records int64      `json:"records"`
	Oldest  *time.Time `json:"oldest_opened_at,omitempty"`
	Age     float64    `json:"oldest_age_seconds"` // 0: there is none
}

// pipelineState is whether the delivery goes on.
type pipelineState struct {
	State   string `json:"state"`
	Breaker string `json:"breaker"`
	Why     string `json:"breaker_why,omitempty"`
}

// processorState is what a processor has done since the start of this instance.
type processorState struct {
	Name    string  `json:"name"`
	Records uint64  `json:"records"`
	Skipped uint64  `json:"skipped"`
	Dead    uint64  `json:"dead"`
	Failed  uint64  `json:"failed"`
	Seconds float64 `json:"seconds"`
}

func (a *API) windowStatus(w http.ResponseWriter, r *http.Request) error {
	st, err := a.Windows.Stats(r.Context())
	if err != nil {
		return answerable(err)
	}
	delivery := a.Windows.Pipeline(windows.Delivered).Stats()
	out := windowsState{States: map[window.State]windowDepth{}, Lost: st.Lost, Closed: st.Closed, Processors: []processorState{},
		Delivery: pipelineState{delivery.State.String(), delivery.Breaker.String(), delivery.Why}}
	for _, state := range window.States() {
		d := st.Of(state)
		out.States[state] = windowDepth{d.Windows, d.Records, when(d.Oldest), age(d.Oldest, st.Now)}
	}
	for _, p := range st.Processors {
		out.Processors = append(out.Processors, processorState{p.Processor, p.Records, p.Skipped, p.Dead, p.Failed, p.Took.Seconds()})
	}
	write(w, http.StatusOK, out)
	return nil
}
