package admin

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/view"
)

// viewing is what the API does of saved views. A view is of who saved it, by the name that the audit trail has of
// them: all who come in without a token on this machine are one.
func (a *API) viewing() Room {
	return Room{Missing: in(a.Views != nil, "this instance has no database that keeps saved views"), Does: []operation.Handler{
		api.ListViews.By(a.listViews), api.GetView.By(a.getView), api.SaveView.By(a.saveView), api.ChangeView.By(a.changeView), api.RemoveView.By(a.removeView)}}
}

func showView(v *view.View) api.View {
	return api.View{SavedView: api.SavedView{ID: v.ID, Name: v.Name, Address: v.Address, Owner: v.Owner, Shared: v.Shared, Made: v.Made, ETag: wire.Fingerprint([]byte(v.Name), []byte(v.Address), []byte(strconv.FormatBool(v.Shared)))}}
}

// viewError gives what the store refuses its status.
func viewError(err error) error {
	for of, status := range map[error]int{view.ErrUnknown: http.StatusNotFound, view.ErrTaken: http.StatusConflict, view.ErrFull: http.StatusConflict, view.ErrFullShared: http.StatusConflict} {
		if errors.Is(err, of) {
			return operation.Refuse(status, "%v", of)
		}
	}
	if p, ok := errors.AsType[*operation.Problem](err); ok { // of what is done within
		return p
	}
	return err
}

// badView refuses a view that breaks a rule, with the parameter that does; nil: none does.
func badView(v *view.View) error {
	var wrong []operation.Mistake
	for _, m := range []struct {
		name string
		err  error
	}{{"name", view.CheckName(v.Name)}, {"address", view.CheckAddress(v.Address)}} {
		if m.err != nil {
			wrong = append(wrong, operation.Mistake{Parameter: m.name, Detail: m.err.Error()})
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	p := operation.Refuse(http.StatusBadRequest, "%s", wrong[0].Detail)
	p.Errors = wrong
	return p
}

// mayShare refuses to share a view for who may change nothing.
func mayShare(who caller.Caller) error {
	if who.Rights.MayAny(caller.Operator) {
		return nil
	}
	return operation.Refuse(http.StatusForbidden, "sharing a view needs the role operator, and %s has the role %v: save it for yourself", who.Name, who.Rights)
}

func (a *API) listViews(ctx context.Context, _ *operation.Short) (iter.Seq2[api.View, error], error) {
	all, err := a.Views.List(ctx, caller.From(ctx).Name)
	if err != nil {
		return nil, answer.Busy(err)
	}
	return answer.Listed(all, showView), nil
}

// getView shows no view of somebody else that is not shared: it is not known then.
func (a *API) getView(ctx context.Context, q *api.OneView) (api.View, error) {
	v, err := a.Views.Get(ctx, q.ID)
	if err == nil && !v.Shared && v.Owner != caller.From(ctx).Name {
		err = view.ErrUnknown
	}
	if err != nil {
		return api.View{}, viewError(err)
	}
	return showView(&v), nil
}

func (a *API) saveView(ctx context.Context, q *api.NewView) (out api.View, err error) {
	who := caller.From(ctx)
	v := view.View{Name: q.Name, Address: q.Address, Shared: q.Shared, Owner: who.Name, Made: a.now().UTC().Truncate(time.Millisecond)}
	if err := badView(&v); err != nil {
		return out, err
	}
	if v.Shared {
		if err := mayShare(who); err != nil {
			return out, err
		}
	}
	if v, err = a.Views.Add(ctx, v); err != nil {
		return out, viewError(err)
	}
	operation.Note(ctx, nil, showView(&v))
	return showView(&v), nil
}

func (a *API) changeView(ctx context.Context, q *api.ViewChange) (out api.View, err error) {
	who := caller.From(ctx)
	var was view.View
	v, err := a.Views.Change(ctx, q.ID, func(v *view.View) error {
		switch {
		case v.Owner != who.Name && !v.Shared:
			return view.ErrUnknown
		case v.Owner != who.Name:
			return operation.Refuse(http.StatusForbidden, "%s saved this view, and nobody else changes it: save one of your own", v.Owner)
		case q.IfMatch != "" && q.IfMatch != showView(v).ETag:
			return operation.Refuse(http.StatusPreconditionFailed, "the view %s was changed since it was read: read it again, and change what it is now", v.Name)
		}
		was = *v
		v.Name, v.Address = cmp.Or(q.Name, v.Name), cmp.Or(q.Address, v.Address)
		if q.Shared != "" {
			v.Shared = q.Shared == "true"
		}
		if v.Shared && *v != was { // somebody who is no operator any more may take it back alone
			if err := mayShare(who); err != nil {
				return err
			}
		}
		return badView(v)
	})
	if err != nil {
		return out, viewError(err)
	}
	operation.Note(ctx, showView(&was), showView(&v))
	return showView(&v), nil
}

func (a *API) removeView(ctx context.Context, q *api.OneView) (out api.View, err error) {
	who := caller.From(ctx)
	v, err := a.Views.Remove(ctx, q.ID, func(v *view.View) error {
		switch {
		case v.Owner == who.Name:
			return nil
		case !v.Shared:
			return view.ErrUnknown
		case !who.Rights.May(caller.Admin, ""):
			return operation.Refuse(http.StatusForbidden, "%s saved this view: they remove it, or an admin does", v.Owner)
		}
		return nil
	})
	if err != nil {
		return out, viewError(err)
	}
	operation.Note(ctx, showView(&v), nil)
	return showView(&v), nil
}
