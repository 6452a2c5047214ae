package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/delivery"
)

// chosen reads which letters are meant: from the query of a listing, or the form of a
// change.
func (a *API) chosen(r *http.Request) (f deadletter.Filter, err error) {
	if err := r.ParseForm(); err != nil {
		return f, refused(http.StatusBadRequest, "%v", err)
	}
	f = deadletter.Filter{Pipeline: r.Form.Get("pipeline"), IDs: r.Form["id"], State: deadletter.State(r.Form.Get("state"))}
	if f.State != "" && f.State != deadletter.Held && f.State != deadletter.Replaying {
		return f, refused(http.StatusBadRequest, "state=%q: want %s or %s", f.State, deadletter.Held, deadletter.Replaying)
	}
	if p := r.Form.Get("partner"); p != "" {
		if f.Pipeline != "" && f.Pipeline != delivery.QueueOf(p) {
			return f, refused(http.StatusBadRequest, "pipeline=%s is not the one of partner=%s: leave one out", f.Pipeline, p)
		}
		f.Pipeline = delivery.QueueOf(p)
	}
	for _, s := range r.Form["seq"] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return f, refused(http.StatusBadRequest, "seq=%q is no number of a letter", s)
		}
		f.Seqs = append(f.Seqs, n)
	}
	if err := f.Check(); err != nil {
		return f, refused(http.StatusBadRequest, "%v", err)
	}
	if f.Tenant, err = a.tenantOf(r); err != nil {
		return f, err
	}
	if f.Kinds, err = kindsOf(r.Form["kind"], r.Form["reason"]); err != nil {
		return f, err
	}
	if f.After, f.Before, err = a.span(r.Form.Get("since"), r.Form.Get("until")); err != nil {
		return f, err
	}
	f.Max, err = number(r.Form.Get("max"), "max")
	return f, err
}

// tenantOf reads whose letters are meant: ?site= or ?tenant= as it is, or ?project= by name
// or id.
func (a *API) tenantOf(r *http.Request) (string, error) {
	site, p := cmp.Or(r.Form.Get("site"), r.Form.Get("tenant")), r.Form.Get("project")
	switch {
	case r.Form.Get("site") != "" && r.Form.Get("tenant") != "":
		return "", refused(http.StatusBadRequest, "site and tenant are both whose letters it is: leave one out")
	case site != "" && p != "":
		return "", refused(http.StatusBadRequest, "site and project are both whose letters it is: leave one out")
	case p == "":
		return site, nil
	}
	if a.Projects == nil {
		return "", refused(http.StatusNotFound, "there are no projects here; site=%s chooses by site, and tenant by tenant", p)
	}
	id, err := a.find(r.Context(), p)
	if unknown, err2 := uuid.Parse(p); err != nil && err2 == nil {
		id, err = unknown, nil // letters may be of a project that there is not
	}
	if err != nil {
		return "", err
	}
	return id.String(), nil
}

// kindsOf reads kinds and reasons of failures; those that are both are meant.
func kindsOf(kinds, reasons []string) (ks []tidemill.Kind, err error) {
	for _, k := range kinds {
		kind, err := tidemill.ParseKind(k)
		if err != nil {
			return nil, refused(http.StatusBadRequest, "%v", err)
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
			return nil, refused(http.StatusBadRequest, "%v", err)
		}
		of = append(of, reason.Kinds()...)
	}
	if len(ks) == 0 {
		return of, nil
	}
	if ks = slices.DeleteFunc(ks, func(k tidemill.Kind) bool { return !slices.Contains(of, k) }); len(ks) == 0 {
		return nil, refused(http.StatusBadRequest, "no failure of the kinds %q has a reason of %q", kinds, reasons)
	}
	return ks, nil
}

// dead lists letters; with ?format=export in the form of programs outside.
func (a *API) dead(w http.ResponseWriter, r *http.Request) error {
	f, err := a.chosen(r)
	if err != nil {
		return err
	}
	stores, err := a.stores(r.Form.Get("system"), f)
	if err != nil {
		return err
	}
	if err := a.knows(r, stores); err != nil {
		return err
	}
	var as func(l *deadletter.Letter) any
	switch format := r.Form.Get("format"); format {
	case "":
		as = func(l *deadletter.Letter) any { return show(l, false) }
	case "export":
		as = func(l *deadletter.Letter) any { return export(l) }
	default:
		return refused(http.StatusBadRequest, "format=%q: there is export, and the usual one without format", format)
	}
	out, most := stream(w, r), f.Max
	for _, s := range stores {
		for l, err := range s.List(r.Context(), f) {
			if err != nil {
				return out.end(err)
			}
			if err := out.add(as(l)); err != nil {
				return out.end(err)
			}
		}
		if most > 0 {
			if f.Max = most - out.n; f.Max <= 0 { // of those before
				break
			}
		}
	}
	return nil
}

// stores are where the chosen letters may be. Those of a system may lie in a store of its own,
// whose numbers are its own: a pipeline, a partner or ?system= says which is meant.
func (a *API) stores(system string, f deadletter.Filter) ([]deadletter.Store, error) {
	if system != "" && !slices.ContainsFunc(a.Systems, func(s System) bool { return s.Name == system }) {
		return nil, refused(http.StatusNotFound, "no system %q runs here", system)
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

// knows refuses the name of a partner that is neither configured nor has letters from when it
// was: it is somebody's typing error, which "none were found" would hide.
func (a *API) knows(r *http.Request, stores []deadletter.Store) error {
	name := r.Form.Get("partner")
	names := a.partnerNames()
	if name == "" || a.Config == nil || slices.Contains(names, name) {
		return nil
	}
	for _, s := range stores {
		for _, err := range s.List(r.Context(), deadletter.Filter{Pipeline: delivery.QueueOf(name), Max: 1}) {
			return err
		}
	}
	return refused(http.StatusNotFound, "there is no partner %q, and no letter of one that was called so; there are %s", name, orNone(names))
}

// owns says whether a pipeline, or a queue that has its letters, is a system's.
func (a *API) owns(system, pipeline string) bool {
	switch {
	case system == delivery.Name && (partnerOf(pipeline) != "" || slices.Contains(delivery.Doors(), pipeline)), system == crm.Name && pipeline == crm.Queue:
		return true
	}
	for _, s := range a.Systems {
		if s.Name == system && slices.ContainsFunc(s.Pipelines, func(e *flow.Engine) bool { return e.Name() == pipeline }) {
			return true
		}
	}
	return false
}

// letter shows one letter.
func (a *API) letter(w http.ResponseWriter, r *http.Request) error {
	l, _, err := a.named(r, 1)
	if err != nil {
		return err
	}
	write(w, http.StatusOK, show(l, true))
	return nil
}

// named finds the letter that the path names by its number or its message's id, with the
// store that it is in: of up to so many in each, the oldest. Several are refused.
func (a *API) named(r *http.Request, most int) (found *deadletter.Letter, in deadletter.Store, err error) {
	name := r.PathValue("letter")
	f := deadletter.Filter{Pipeline: r.URL.Query().Get("pipeline"), IDs: []string{name}, Max: most}
	stores, err := a.stores(r.URL.Query().Get("system"), f)
	if err != nil {
		return nil, nil, err
	}
	if seq, err := strconv.ParseInt(name, 10, 64); err == nil {
		if found, in, err = only(r.Context(), stores, deadletter.Filter{Pipeline: f.Pipeline, Seqs: []int64{seq}}, name); err != nil || found != nil {
			return found, in, err
		}
	}
	if found, in, err = only(r.Context(), stores, f, name); err == nil && found == nil {
		where := ""
		if f.Pipeline != "" {
			where = " of pipeline " + f.Pipeline
		}
		err = refused(http.StatusNotFound, "there is no dead letter %s%s; `tidemill dead list` shows them", name, where)
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
				return nil, nil, refused(http.StatusConflict, "two letters are called %s, of the pipelines %s and %s: say which pipeline", name, found.Pipeline, l.Pipeline)
			case found != nil:
				return nil, nil, refused(http.StatusConflict, "several letters have the id %s: say which pipeline, or name one by its number (seq), as `tidemill dead list --json` shows it", name)
			}
			found, in = l, s
		}
	}
	return found, in, nil
}

// decodes refuses a payload that a replay of the letter could not read: it would only die again.
func (a *API) decodes(l *deadletter.Letter, payload []byte) error {
	m := l.Message
	m.Payload = payload
	for _, s := range a.Systems {
		if s.Decodes == nil || !a.owns(s.Name, l.Pipeline) {
			continue
		}
		if err := s.Decodes(l.Pipeline, &m); err != nil {
			return refused(http.StatusUnprocessableEntity, "a replay could not read the new payload, nothing is changed: %v", err)
		}
	}
	return nil
}

// editBody is how many bytes a payload may have that is edited by hand.
const editBody = 4 << 20

// edit replaces the payload of a letter by the body of the request.
func (a *API) edit(w http.ResponseWriter, r *http.Request) error {
	payload, err := payloadOf(w, r)
	if err != nil {
		return err
	}
	l, in, err := a.named(r, 2)
	if err != nil {
		return err
	}
	if err := a.decodes(l, payload); err != nil {
		return err
	}
	if err := in.Edit(r.Context(), l.Name(), payload); err != nil {
		return answerable(err)
	}
	a.Log.InfoContext(r.Context(), "dead letter edited by hand", "seq", l.Seq, "pipeline", l.Pipeline, "bytes", len(payload))
	for l, err := range in.List(r.Context(), deadletter.Filter{Seqs: []int64{l.Seq}}) {
		if err != nil {
			return err
		}
		write(w, http.StatusOK, show(l, true))
		return nil
	}
	return refused(http.StatusNotFound, "letter %d was edited, and is gone meanwhile", l.Seq)
}

func (a *API) replay(w http.ResponseWriter, r *http.Request) error { return a.move(w, r, "replay") }

func (a *API) discard(w http.ResponseWriter, r *http.Request) error { return a.move(w, r, "delete") }

// move replays or discards the chosen letters; with ?dry_run it only counts them, those
// that are held. To mean all of them is to say so. The answer says as of when it is: what
// dies again in the replay has died later.
func (a *API) move(w http.ResponseWriter, r *http.Request, what string) error {
	f, err := a.chosen(r)
	if err != nil {
		return err
	}
	if len(f.IDs) == 0 && len(f.Seqs) == 0 && len(f.Kinds) == 0 && f.Tenant == "" && f.Pipeline == "" && f.After.IsZero() && f.Before.IsZero() && f.Max == 0 && r.Form.Get("all") != "true" {
		return refused(http.StatusBadRequest, "say which letters to %s: ids, a filter, or all", what)
	}
	if f.State == deadletter.Replaying {
		return refused(http.StatusBadRequest, "letters that are being replayed cannot be moved: leave state out")
	}
	now, dry := time.Now().UTC(), r.Form.Get("dry_run") == "true"
	f.State = deadletter.Held
	stores, err := a.stores(r.Form.Get("system"), f)
	if err != nil {
		return err
	}
	if err := a.knows(r, stores); err != nil {
		return err
	}
	total := 0
	for _, s := range stores {
		do := s.Delete
		switch {
		case dry:
			do = s.Count
		case what == "replay":
			do = s.Replay
		}
		n, err := do(r.Context(), f)
		total += n
		if err != nil {
			return err
		}
		if f.Max > 0 {
			if f.Max -= n; f.Max <= 0 {
				break
			}
		}
	}
	a.Log.InfoContext(r.Context(), "dead letters moved by hand", "what", what, "count", total, "dry_run", dry)
	write(w, http.StatusOK, map[string]any{"count": total, "as_of": now})
	return nil
}
