// Package windowsapi is what the API does of windows.
package windowsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// API does what the API does of windows.
type API struct {
	*answer.Common
	Windows *windows.System

	// Adopt takes over what another program has collected under keys that begin so, for a project; nil:
	// windows are not on a Redis.
	Adopt func(ctx context.Context, prefix string, project uuid.UUID, dryRun bool) (AdoptedWindows, error)
	Files []FileSource // where windows come from files
}

// Operations are those of the API that are about it.
func (a *API) Operations() []operation.Handler {
	return []operation.Handler{
		ListWindows.By(a.windows),
		GetWindows.By(a.windowStatus),
		GetWindow.By(a.window),
		GetRecords.By(a.windowRecords),
		GetRevision.By(func(ctx context.Context, q *OneRevision) (StandingWindow, error) {
			return a.window(ctx, &OneWindow{ID: q.Batch + "/" + q.Revision, Project: q.Project})
		}),
		GetRevisionRecords.By(func(ctx context.Context, q *RecordsOfRevision) (RecordPage, error) {
			return a.windowRecords(ctx, &RecordsOf{OneWindow: OneWindow{ID: q.Batch + "/" + q.Revision, Project: q.Project}, Page: q.Page})
		}),
		CloseWindow.By(a.closeWindow),
		ReplayWindows.By(a.replayWindows),
		SendRecords.By(a.sendRecords),
		AdoptWindows.By(a.adoptWindows),
		ListFiles.By(a.windowFiles),
		GiveUpFile.By(a.giveUpFile),
		Search.By(a.search),
	}
}

func showWindow(i *window.Info, now time.Time, names map[uuid.UUID]string) Window {
	batch := record.ParseBatch(i.Batch)
	out := Window{ID: shownID(i.ID), Batch: batch.ID(), Project: nameOf(batch, names), Revision: i.Revision, State: string(i.State), Records: i.Records, Bytes: i.Bytes, Expect: i.Expect, Lost: i.Lost,
		Opened: i.Opened.UTC(), Age: answer.Age(i.Opened, now), Closed: answer.When(i.Closed), Why: string(i.Why), Handed: i.Handed, Tries: i.Tries, Replays: i.Replays,
		Failed: answer.When(i.Failed), Error: i.Cause}
	if i.State == window.Leased {
		out.Owner, out.Lease = i.Owner, answer.When(i.Due)
	} else {
		out.Due = answer.When(i.Due)
	}
	if !i.Failed.IsZero() {
		out.Kind = i.Kind.String()
	}
	return out
}

// windows lists windows.
func (a *API) windows(ctx context.Context, q *WindowFilter) (iter.Seq2[Window, error], error) {
	c, err := a.windowsOf(ctx, q)
	if err != nil {
		return nil, err
	}
	st, err := a.Windows.Windows().Stats(ctx) // for the clock
	if err != nil {
		return nil, err
	}
	names, err := a.ProjectNames(ctx)
	return answer.ShownAs(a.windowsChosen(ctx, c), func(i *window.Info) Window {
		out := showWindow(i, st.Now, names)
		out.Position = i.ID
		return out
	}), err
}

// window shows one window, and why it is where it is.
func (a *API) window(ctx context.Context, q *OneWindow) (out StandingWindow, err error) {
	id, err := a.windowID(ctx, q)
	if err != nil {
		return out, err
	}
	st, err := a.Windows.Look(ctx, id)
	if err != nil {
		return out, noWindow(err, id)
	}
	names, err := a.ProjectNames(ctx)
	return StandingWindow{Window: showWindow(st.Info, st.Now, names), Waits: string(st.Waits), Until: answer.When(st.Until), Behind: shownID(st.Behind), Because: st.Because,
		Kinds: st.Kinds, Damaged: st.Damaged, Counted: st.Counted}, err
}

// noWindow names a window that is not there as people know it.
func noWindow(err error, id string) error {
	if errors.Is(err, window.ErrNotFound) {
		err = window.NotFound(shownID(id))
	}
	return answer.Answerable(err)
}

// Records of a page: the default, and the most.
const (
	recordsShown = 100
	recordsMost  = 1000
)

// windowRecords shows a page of a window's records, fewer than asked for where they are large.
func (a *API) windowRecords(ctx context.Context, q *RecordsOf) (out RecordPage, err error) {
	if q.Size > recordsMost {
		return out, operation.Refuse(http.StatusBadRequest, "size=%d: a page has at most %d records; next of its answer is where the one after it begins", q.Size, recordsMost)
	}
	id, err := a.windowID(ctx, &q.OneWindow)
	if err != nil {
		return out, err
	}
	records := make([]window.Record, cmp.Or(q.Size, recordsShown))
	page, err := a.Windows.Windows().Peek(ctx, id, q.After, records)
	if err != nil {
		return out, noWindow(err, id)
	}
	out = RecordPage{Records: []operation.JSON[Record]{}, Next: page.Next, Lost: page.Lost}
	for i := range records[:page.N] {
		rec := &records[i]
		shown := Record{Kind: rec.Kind, ID: rec.ID, Qualifier: rec.Qualifier, Damaged: rec.Damaged}
		shown.Payload, shown.PayloadBase64 = answer.Text(rec.Body)
		b, err := json.Marshal(shown)
		if err != nil {
			return out, err
		}
		out.Records = append(out.Records, b)
	}
	return out, nil
}

// closeWindow closes what collects of a batch id, before its time is over.
func (a *API) closeWindow(ctx context.Context, q *OneBatch) (out ClosedWindow, err error) {
	c, err := a.windowsOf(ctx, &WindowFilter{State: string(window.Active), Batch: q.Batch, Project: q.Project})
	if err != nil {
		return out, err
	}
	found, err := a.windowsFound(ctx, c)
	if err != nil {
		return out, err
	}
	if len(found) > 0 {
		if out.Closed, err = a.Windows.Windows().CloseNow(ctx, found[0].Batch); err != nil {
			return out, answer.Answerable(err)
		}
	}
	if !out.Closed {
		return out, operation.Refuse(http.StatusNotFound, "no window of batch %q collects: it was closed, or none was opened; `tidemill window list --batch` shows those there are", c.batch)
	}
	names, err := a.ProjectNames(ctx)
	out.Batch, out.Project = c.batch, nameOf(record.ParseBatch(found[0].Batch), names)
	// Logged when somebody ended a window before its time.
	a.Log.InfoContext(ctx, "window closed by hand", "batch", c.batch, "project", out.Project)
	return out, err
}

// adoptWindows takes over the batches of the program that this replaces, into a project; a dry run
// only counts them.
func (a *API) adoptWindows(ctx context.Context, q *Adoption) (done AdoptedWindows, err error) {
	if a.Adopt == nil {
		return done, operation.Refuse(http.StatusConflict, "windows are not on a Redis here, so that there is nothing to take over: set windows.redis.url to the Redis of the other program")
	}
	project, err := a.windowsProject(ctx, q.Project)
	if err != nil {
		return done, err
	}
	if done, err = a.Adopt(ctx, q.Prefix, project, q.DryRun); err != nil {
		return done, answer.Answerable(err)
	}
	// Logged when somebody took over the windows of the program that this replaces.
	a.Log.InfoContext(ctx, "batches of another program taken over by hand", "count", done.Batches, "records", done.Records, "lost", done.Lost, "dry_run", q.DryRun)
	return done, nil
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

// replayWindows makes the chosen parked windows ready again; a dry run only counts them. To mean
// all of them is to say so.
func (a *API) replayWindows(ctx context.Context, q *WindowMove) (out api.Counted, err error) {
	c, err := a.windowsOf(ctx, &WindowFilter{IDs: q.IDs, Batch: q.Batch, Project: q.Project, State: cmp.Or(q.State, string(window.Parked)), Max: q.Max})
	if err != nil {
		return out, err
	}
	switch {
	case c.state != window.Parked:
		return out, operation.Refuse(http.StatusBadRequest, "state=%s: only parked windows can be replayed; those of other states are on their way", c.state)
	case len(c.ids) == 0 && c.batch == "" && c.max == 0 && !q.All:
		return out, operation.Refuse(http.StatusBadRequest, "say which windows to replay: id, batch, or all, which are those that are parked")
	}
	found, err := a.windowsFound(ctx, c)
	if err != nil {
		return out, err
	}
	out.Count = len(found)
	if !q.DryRun {
		if out.Count, err = a.replayFound(ctx, c, found); err != nil && out.Count > 0 {
			return out, operation.Refuse(http.StatusServiceUnavailable, "after %d windows: %v", out.Count, err)
		} else if err != nil {
			return out, answer.Answerable(err)
		}
	}
	// Logged when somebody had parked windows delivered again.
	a.Log.InfoContext(ctx, "windows replayed by hand", "count", out.Count, "batch", c.batch, "ids", strings.Join(c.ids[:min(len(c.ids), 10)], " "), "dry_run", q.DryRun)
	return out, nil
}

func (a *API) windowStatus(ctx context.Context, _ *operation.None) (out Windows, err error) {
	st, err := a.Windows.Stats(ctx)
	if err != nil {
		return out, answer.Answerable(err)
	}
	delivery := a.Windows.Pipeline(windows.Delivered).Stats()
	out = Windows{States: map[string]WindowDepth{}, Lost: st.Lost, Closed: st.Closed, Processors: []Processor{},
		Delivery: WindowDelivery{State: delivery.State.String(), Breaker: delivery.Breaker.String(), Why: delivery.Why}}
	for _, state := range window.States() {
		d := st.Of(state)
		out.States[string(state)] = WindowDepth{Windows: d.Windows, Records: d.Records, Oldest: answer.When(d.Oldest), Age: answer.Age(d.Oldest, st.Now)}
	}
	for _, p := range st.Processors {
		out.Processors = append(out.Processors, Processor{Name: p.Processor, Records: p.Records, Skipped: p.Skipped, Dead: p.Dead, Failed: p.Failed, Seconds: p.Took.Seconds()})
	}
	return out, nil
}
