package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/nearest"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
)

// deadLetters is what the API does of dead letters.
func (a *API) deadLetters() Room {
	return Room{Missing: in(a.Letters != nil || len(a.OwnLetters) > 0, "this instance keeps no dead letters"), Does: []operation.Handler{
		api.ListDead.CountedBy(a.dead, a.countDead),
		api.GroupDead.By(a.groups),
		api.GetDead.By(a.letter),
		api.GetDeadPayload.By(a.deadPayload),
		api.GetDeadOriginal.By(a.deadOriginal),
		api.ReplayDead.By(a.moveDead(api.DeadReplay)),
		api.DeleteDead.By(a.moveDead(api.DeadDelete)),
		api.EditDead.By(a.edit),
	}}
}

// chosen reads which letters are meant.
func (a *API) chosen(ctx context.Context, ids []string, q *api.Dead) (f deadletter.Filter, err error) {
	f = deadletter.Filter{Pipeline: q.Pipeline, IDs: ids, Seqs: q.Seq, Max: q.Max, Cause: deadletter.CommonCause(q.Cause)}
	if q.Partner != "" {
		of := a.queueOf(q.Partner)
		if of == "" {
			return f, operation.Refuse(http.StatusNotFound, "no system of this program has partners: leave partner out")
		}
		if f.Pipeline != "" && f.Pipeline != of {
			return f, operation.Refuse(http.StatusBadRequest, "pipeline=%s is not the one of partner=%s: leave one out", f.Pipeline, q.Partner)
		}
		f.Pipeline = of
	}
	if err := f.Check(); err != nil {
		return f, operation.Refuse(http.StatusBadRequest, "%v", err)
	}
	if f.Tenant, err = a.tenantOf(ctx, q); err != nil {
		return f, err
	}
	if f.Kinds, err = kindsOf(q.Kind, q.Reason); err != nil {
		return f, err
	}
	f.After, f.Before, err = answer.Span(q.Span)
	return f, err
}

// tenantOf is whose letters are meant: a site or a tenant as it is, or a project by name or id.
func (a *API) tenantOf(ctx context.Context, q *api.Dead) (string, error) {
	site, p := cmp.Or(q.Site, q.Tenant), q.Project
	switch {
	case q.Site != "" && q.Tenant != "":
		return "", operation.Refuse(http.StatusBadRequest, "site and tenant are both whose letters it is: leave one out")
	case site != "" && p != "":
		return "", operation.Refuse(http.StatusBadRequest, "site and project are both whose letters it is: leave one out")
	case p == "":
		return site, nil
	}
	if a.Projects == nil {
		return "", operation.Refuse(http.StatusNotFound, "there are no projects here; site=%s chooses by site, and tenant by tenant", p)
	}
	id, err := a.Find(ctx, p)
	if unknown, err2 := uuid.Parse(p); err != nil && err2 == nil {
		id, err = unknown, nil // letters may be of a project that there is not
	}
	if err != nil {
		return "", err
	}
	return id.String(), nil
}

func kindNames() (all []string) {
	for _, k := range tidemill.Kinds() {
		all = append(all, k.String())
	}
	return all
}

func reasonNames() (all []string) {
	for _, r := range deadletter.Reasons() {
		all = append(all, string(r))
	}
	return all
}

// kindsOf reads kinds and reasons of failures; those that are both are meant.
func kindsOf(kinds, reasons []string) (ks []tidemill.Kind, err error) {
	for _, k := range kinds {
		kind, err := tidemill.ParseKind(k)
		if err != nil {
			return nil, operation.Refuse(http.StatusBadRequest, "%v%s", err, nearest.Said(k, kindNames()))
		}
		ks = append(ks, kind)
	}
	if len(reasons) == 0 {
		return ks, nil
	}
	var of []tidemill.Kind
	for _, s := range reasons {
		reason, err := deadletter.ParseReason(s)
		if err != nil {
			return nil, operation.Refuse(http.StatusBadRequest, "%v%s", err, nearest.Said(s, reasonNames()))
		}
		of = append(of, reason.Kinds()...)
	}
	if len(ks) == 0 {
		return of, nil
	}
	if ks = slices.DeleteFunc(ks, func(k tidemill.Kind) bool { return !slices.Contains(of, k) }); len(ks) == 0 {
		return nil, operation.Refuse(http.StatusBadRequest, "no failure of the kinds %q has a reason of %q", kinds, reasons)
	}
	return ks, nil
}

// chosenIn reads which letters are meant, and where they may be.
func (a *API) chosenIn(ctx context.Context, ids []string, q *api.Dead) (f deadletter.Filter, stores []deadletter.Store, err error) {
	if f, err = a.chosen(ctx, ids, q); err != nil {
		return f, nil, err
	}
	may := sightOf(ctx)
	f.Only = a.pipelines(may)
	if q.System != "" {
		err = may.refuse(q.System, "system", q.System)
	}
	if err == nil && f.Pipeline != "" {
		err = may.refuse(a.systemOf(f.Pipeline), "pipeline", f.Pipeline)
	}
	if err != nil {
		return f, nil, err
	}
	if stores, err = a.stores(q.System, f); err != nil {
		return f, nil, err
	}
	f.Only = a.ofSystem(q.System, stores, f.Only)
	return f, stores, a.knows(ctx, q.Partner, stores)
}

// stores are where the chosen letters may be. Those of a system may lie in a store of its own,
// whose numbers are its own: a pipeline, a partner or ?system= says which is meant.
func (a *API) stores(system string, f deadletter.Filter) ([]deadletter.Store, error) {
	if system != "" && !slices.ContainsFunc(a.Systems, func(s System) bool { return s.Name == system }) {
		return nil, operation.Refuse(http.StatusNotFound, "no system %q runs here", system)
	}
	var all []deadletter.Store
	if a.Letters != nil {
		all = append(all, a.Letters)
	}
	for _, s := range a.OwnLetters {
		switch {
		case system == s.System, system == "" && a.owns(s.System, f.Pipeline):
			return []deadletter.Store{s.Store}, nil
		default:
			all = append(all, s.Store)
		}
	}
	if a.Letters != nil && (system != "" || f.Pipeline != "") {
		return []deadletter.Store{a.Letters}, nil
	}
	return all, nil
}

// ofSystem narrows dead letters to those of a system, where the store has those of several: to the
// pipelines that only takes, if it is not nil. One whose system is not known is that of the only system.
func (a *API) ofSystem(system string, stores []deadletter.Store, only func(string) bool) func(string) bool {
	if system == "" || len(stores) != 1 || stores[0] != a.Letters {
		return only
	}
	alone := len(a.Systems) == 1
	return func(pipeline string) bool {
		of := a.systemOf(pipeline)
		return (of == system || of == "" && alone) && (only == nil || only(pipeline))
	}
}

// knows refuses the name of a partner that is neither configured nor has letters from when it
// was: it is somebody's typing error, which "none were found" would hide.
func (a *API) knows(ctx context.Context, name string, stores []deadletter.Store) error {
	names := a.partnerNames()
	if name == "" || a.Config == nil || slices.Contains(names, name) {
		return nil
	}
	for _, s := range stores {
		for _, err := range s.List(ctx, deadletter.Filter{Pipeline: a.queueOf(name), Max: 1}) {
			return err
		}
	}
	return operation.Refuse(http.StatusNotFound, "there is no partner %q, and no letter of one that was called so; there are %s", name, answer.Named(name, names))
}

// letter shows one letter.
func (a *API) letter(ctx context.Context, q *api.OneDead) (api.DeadLetter, error) {
	l, _, err := a.named(ctx, q, 1)
	if err != nil {
		return api.DeadLetter{}, err
	}
	return a.showWhole(ctx, l), nil
}

// named finds the letter of that number or message's id, with the store that it is in: of up to so
// many in each, the oldest. Several are refused.
func (a *API) named(ctx context.Context, q *api.OneDead, most int) (found *deadletter.Letter, in deadletter.Store, err error) {
	name := q.Letter
	may := sightOf(ctx)
	if q.System != "" {
		if err := may.refuse(q.System, "system", q.System); err != nil {
			return nil, nil, err
		}
	}
	f := deadletter.Filter{Only: a.pipelines(may.looking()), Pipeline: q.Pipeline, IDs: []string{name}, Max: most}
	stores, err := a.stores(q.System, f)
	if err != nil {
		return nil, nil, err
	}
	f.Only = a.ofSystem(q.System, stores, f.Only)
	if seq, err2 := strconv.ParseInt(name, 10, 64); err2 == nil {
		found, in, err = only(ctx, stores, deadletter.Filter{Only: f.Only, Pipeline: f.Pipeline, Seqs: []int64{seq}}, name)
	}
	if err == nil && found == nil {
		found, in, err = only(ctx, stores, f, name)
	}
	switch {
	case err != nil:
	case found != nil:
		err = may.refuse(a.systemOf(found.Pipeline), "the dead letter", name)
	default:
		where := ""
		if f.Pipeline != "" {
			where = " of pipeline " + f.Pipeline
		}
		err = operation.Refuse(http.StatusNotFound, "there is no dead letter %s%s; `tidemill dead list` shows them", name, where)
	}
	return found, in, err
}

// only is the one letter that matches; nil: none does.
func only(ctx context.Context, stores []deadletter.Store, f deadletter.Filter, name string) (found *deadletter.Letter, in deadletter.Store, err error) {
	for _, s := range stores {
		for l, err := range s.List(ctx, f) {
			switch {
			case err != nil:
				return nil, nil, err
			case found != nil && in != s:
				return nil, nil, operation.Refuse(http.StatusConflict, "two letters are called %s, of the pipelines %s and %s: say which pipeline", name, found.Pipeline, l.Pipeline)
			case found != nil:
				return nil, nil, operation.Refuse(http.StatusConflict, "several letters have the id %s: say which pipeline, or name one by its number (seq), as `tidemill dead list --json` shows it", name)
			}
			found, in = l, s
		}
	}
	return found, in, nil
}

// decodes refuses a payload that who gets it could not read: a replay of a pipeline's dead letters, where
// it would only die again, or who works on the jobs of a queue, where it would die or be skipped.
func (a *API) decodes(who, pipeline string, m tidemill.Message, payload []byte) error {
	m.Payload = payload
	for _, s := range a.Systems {
		if s.Decodes == nil || !a.owns(s.Name, pipeline) {
			continue
		}
		if err := s.Decodes(pipeline, &m); err != nil {
			return operation.Refuse(http.StatusUnprocessableEntity, "%s could not read the new payload, nothing is changed: %v", who, err)
		}
	}
	return nil
}

// deadPayload is the payload of a letter, with the ETag that an edit is compared with.
func (a *API) deadPayload(ctx context.Context, q *api.OneDead) (out operation.Payload, err error) {
	l, _, err := a.named(ctx, q, 2)
	if err != nil {
		return out, err
	}
	return operation.PayloadOf(ctx, a.show(l, false), l.ID, l.Version(), l.Payload)
}

// deadOriginal is what was received, with an ETag of its own, as no edit changes it.
func (a *API) deadOriginal(ctx context.Context, q *api.OneDead) (out operation.Payload, err error) {
	l, _, err := a.named(ctx, q, 2)
	if err != nil {
		return out, err
	}
	payload := l.Payload
	if !l.Edited.IsZero() {
		payload = l.Original
	}
	return operation.PayloadOf(ctx, a.show(l, false), l.ID+"-original", "original-"+wire.Fingerprint(payload), payload)
}

// edit replaces the payload of a letter.
func (a *API) edit(ctx context.Context, q *api.DeadEdit) (out api.DeadLetter, err error) {
	payload, err := q.Payload()
	if err != nil {
		return out, err
	}
	l, in, err := a.named(ctx, &q.OneDead, 2)
	if err != nil {
		return out, err
	}
	if err := operation.CoveredStays(ctx, a.show(l, false), payload); err != nil {
		return out, err
	}
	if err := a.decodes("a replay", l.Pipeline, l.Message, payload); err != nil {
		return out, err
	}
	if q.IfMatch, err = operation.Seen(ctx, a.show(l, false), q.IfMatch); err != nil {
		return out, err
	}
	if err := in.Edit(ctx, l.Name(), payload, q.IfMatch); err != nil {
		return out, answer.Answerable(err)
	}
	// Logged when somebody replaced the payload of a dead letter.
	a.Log.InfoContext(ctx, "dead letter edited by hand", "seq", l.Seq, "pipeline", l.Pipeline, "bytes", len(payload))
	for l, err := range in.List(ctx, deadletter.Filter{Seqs: []int64{l.Seq}}) {
		if err != nil {
			return out, err
		}
		return a.showWhole(ctx, l), nil
	}
	return out, operation.Refuse(http.StatusNotFound, "letter %d was edited, and is gone meanwhile", l.Seq)
}

// moveDead makes a change of the dead letters that a request chooses.
func (a *API) moveDead(what string) func(context.Context, *api.DeadMove) (api.Moved, error) {
	return func(ctx context.Context, q *api.DeadMove) (out api.Moved, err error) {
		out.AsOf = time.Now().UTC()
		n, err := a.move(ctx, what, q.Things(), q.DryRun)
		out.Count, out.AtLeast = n.Count, n.AtLeast
		return out, err
	}
}

// unfiltered says whether a filter chooses all dead letters that the caller may look at.
func unfiltered(f *deadletter.Filter) bool {
	return len(f.IDs) == 0 && len(f.Seqs) == 0 && len(f.Kinds) == 0 && f.Cause == "" && f.Tenant == "" && f.Pipeline == "" && f.After.IsZero() && f.Before.IsZero()
}

// someDead are the dead letters to change, of those that are held.
func (a *API) someDead(ctx context.Context, what string, q *api.OperationThings) (many, error) {
	f, stores, err := a.chosenIn(ctx, q.IDs, &q.Dead)
	if err != nil {
		return nil, err
	}
	if unfiltered(&f) && f.Max == 0 && !q.All {
		return nil, operation.Refuse(http.StatusBadRequest, "say which letters to %s: ids, a filter, or all", strings.TrimPrefix(what, "dead."))
	}
	if q.State == string(deadletter.Replaying) {
		return nil, operation.Refuse(http.StatusBadRequest, "letters that are being replayed cannot be moved: leave state out")
	}
	f.State = deadletter.Held
	return &someDead{a, f, stores, what == api.DeadReplay}, nil
}
