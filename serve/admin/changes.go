package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/trail"
)

// changesLooked is how many entries are looked at for the last changes.
const changesLooked = 20_000

// changesUsual is how many last changes are shown to who says nothing.
const changesUsual = 20

// newest shows the newest entries that a filter chooses, the newest first, until it is told that they are
// enough, or so many were looked at; then there may be more.
func (a *API) newest(ctx context.Context, f trail.Filter, most int, do func(*trail.Entry) (on bool)) (more bool, err error) {
	f.Back = true
	for most > 0 {
		f.Most = min(most, trailPage)
		page, err := a.Trail.List(ctx, f)
		if err != nil {
			return false, err
		}
		for i := range page {
			if f.Beyond = page[i].Seq; !do(&page[i]) {
				return false, nil
			}
		}
		if len(page) < f.Most {
			return false, nil
		}
		most -= f.Most
	}
	return true, nil
}

// changesSought are the last changes that somebody asks for, and what was found of them.
type changesSought struct {
	*api.ChangesOf
	sees   func(*trail.Entry) bool
	all    []trail.Entry
	looked int
	rest   bool // there may be more, which were not looked at
}

// noChanges are entries of the trail that change nothing of what runs: anybody can cause logins, and saved views are
// their owners'.
var noChanges = []string{opLogin, opLogout, api.SaveView.ID, api.ChangeView.ID, api.RemoveView.ID}

// meant says whether an entry is one that is asked for. Those of noChanges are not, unless they are named.
func (s *changesSought) meant(e *trail.Entry) bool {
	if len(s.Operation) == 0 {
		return !slices.Contains(noChanges, e.Operation)
	}
	if s.Owner != "" && !changesLimitOf(s.Owner, e) {
		return false
	}
	return slices.Contains(s.Operation, e.Operation) && (s.Thing == "" || e.Thing == s.Thing || strings.HasPrefix(e.Thing, s.Thing+"/"))
}

// changesLimitOf says whether a change of settings of a queue changed the limit that an owner has of its own.
func changesLimitOf(owner string, e *trail.Entry) bool {
	before, after := settingsIn(e.Before), settingsIn(e.After)
	if before == nil || after == nil {
		return false
	}
	was, had := before.Tenants[owner]
	is, has := after.Tenants[owner]
	return had != has || was != is
}

// seek looks through the newest entries of a filter, most of them, for as many as are asked for. It
// returns the number of the last one that it looked at, and whether there may be more behind it.
func (a *API) seek(ctx context.Context, s *changesSought, f trail.Filter, most int) (last uint64, more bool, err error) {
	found := 0
	more, err = a.newest(ctx, f, most, func(e *trail.Entry) bool {
		last = e.Seq
		if s.looked++; s.meant(e) && s.sees(e) {
			s.all = append(s.all, *e)
			found++
		}
		return found < s.Max
	})
	return last, more, err
}

// seekBy looks for the entries of each operation by itself: what others left in the trail meanwhile does
// not count.
func (a *API) seekBy(ctx context.Context, s *changesSought, operations []string, beyond uint64) error {
	for _, id := range slices.Compact(slices.Sorted(slices.Values(operations))) {
		_, more, err := a.seek(ctx, s, trail.Filter{Operation: id, Beyond: beyond}, changesLooked-s.looked)
		if err != nil {
			return err
		}
		s.rest = s.rest || more
	}
	return nil
}

// seekAll looks for changes of all kinds: among the newest entries of the trail, and where most of these
// are none, as in a flood of logins, for those of each operation.
func (a *API) seekAll(ctx context.Context, s *changesSought) error {
	last, more, err := a.seek(ctx, s, trail.Filter{}, trailPage)
	if err != nil || !more {
		return err
	}
	var ids []string
	for _, h := range a.does {
		if (h.Exports || changes(h.Description)) && !slices.Contains(noChanges, h.ID) {
			ids = append(ids, h.ID)
		}
	}
	return a.seekBy(ctx, s, ids, last)
}

func (a *API) lastChanges(ctx context.Context, q *api.ChangesOf) (iter.Seq2[api.Change, error], error) {
	who, may := caller.From(ctx), sightOf(ctx)
	s := &changesSought{ChangesOf: q, sees: func(e *trail.Entry) bool { // logins, users and tokens are for admins
		return who.Rights.May(caller.Admin, "") || a.seenByAll(e.Operation) && (may.all() || may.of(a.systemChanged(e)))
	}}
	q.Max = cmp.Or(q.Max, changesUsual)
	if q.Owner != "" && len(q.Operation) == 0 {
		q.Operation = []string{api.SetQueue.ID}
	}
	var err error
	switch {
	case len(q.Operation) > 0:
		err = a.seekBy(ctx, s, q.Operation, 0)
	case q.Thing != "":
		_, s.rest, err = a.seek(ctx, s, trail.Filter{Thing: q.Thing}, changesLooked)
	default:
		err = a.seekAll(ctx, s)
	}
	if err != nil {
		return nil, answer.Busy(err)
	}
	slices.SortFunc(s.all, func(x, y trail.Entry) int { return cmp.Compare(y.Seq, x.Seq) })
	return s.shown(), nil
}

// shown are the changes that were found; at the end it is said where there may be more of them.
func (s *changesSought) shown() iter.Seq2[api.Change, error] {
	return func(yield func(api.Change, error) bool) {
		for _, e := range s.all[:min(len(s.all), s.Max)] {
			if !yield(showChange(&e), nil) {
				return
			}
		}
		if s.rest {
			yield(api.Change{}, &operation.Rest{Looked: s.looked})
		}
	}
}

func showChange(e *trail.Entry) api.Change {
	c := api.Change{At: e.At.UTC(), Who: e.Who, Operation: e.Operation, Thing: e.Thing, Outcome: e.Outcome}
	if slices.Contains(settingQueues, e.Operation) {
		c.Before, c.After = settingsIn(e.Before), settingsIn(e.After)
	}
	return c
}

// settingQueues are operations whose entries have the settings of a queue.
var settingQueues = []string{api.SetQueue.ID, api.PauseQueue.ID, api.ResumeQueue.ID, api.DrainQueue.ID}

// settingsIn reads what an entry has of a queue's settings; nil: nothing, or not all of them.
func settingsIn(text string) *queue.Settings {
	var s queue.Settings
	if json.Unmarshal([]byte(text), &s) != nil {
		return nil
	}
	return &s
}

// systemChanged is the system that a change was of; empty: not known, or of all.
func (a *API) systemChanged(e *trail.Entry) string {
	i := slices.IndexFunc(a.does, func(h operation.Handler) bool { return h.ID == e.Operation })
	if i < 0 {
		return ""
	}
	d := a.does[i]
	if d.System != operation.Each {
		return d.System
	}
	of, _ := url.ParseQuery(e.Filter)
	name := cmp.Or(of.Get("queue"), of.Get("pipeline"), a.queueOf(of.Get("partner")))
	if strings.HasPrefix(d.Path, "queues/{name}/") {
		name = e.Thing
	}
	return a.systemOf(name)
}

// seenByAll says whether everybody may know of changes by an operation: those of people they may not, nor those of
// saved views, whose names may be somebody's own.
func (a *API) seenByAll(id string) bool {
	people := a.people()[1].Does
	return !slices.Contains(noChanges, id) && slices.ContainsFunc(a.does, func(h operation.Handler) bool { return h.ID == id }) && !slices.ContainsFunc(people, func(h operation.Handler) bool { return h.ID == id })
}
