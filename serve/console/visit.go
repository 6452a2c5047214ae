package console

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// visit is one request for a page.
type visit struct {
	*Console
	w    http.ResponseWriter
	r    *http.Request
	who  caller.Caller
	at   time.Time // of the page; ages are of it
	zone *time.Location
	look string // light or dark; empty: as the system has it
}

func (c *Console) visit(w http.ResponseWriter, r *http.Request) *visit {
	v := &visit{Console: c, w: w, r: r, who: caller.From(r.Context()), at: c.Now(), zone: time.UTC}
	v.readPreferences()
	return v
}

// ctx is the context of reads.
func (v *visit) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(v.r.Context(), readWithin)
}

// may says whether the caller may do an operation, by its id. What the API does not describe nobody may.
func (v *visit) may(id string) bool {
	role, known := v.roles[id]
	return known && v.who.Role.May(role)
}

// query is the query of the page's address.
func (v *visit) query() url.Values { return v.r.URL.Query() }

// view is what a page shows.
type view struct {
	*visit
	file    string // in templates
	Title   string
	Crumbs  []link   // above this page
	Section string   // of the navigation, that the page is in
	Live    bool     // its figures are fetched again while somebody looks
	Topics  []string // of the stream, that say when its figures are others
	Body    any
	Stands  *api.Overview   // how all stands; nil: it is not known
	Running []api.Operation // that are scheduled or run
}

// link is a place to go to.
type link struct{ Text, Href string }

// render writes a page. It is made whole before it is sent, so that an error is a page too.
func (v *visit) render(status int, page *view) {
	page.visit = v
	page.Stands, _ = v.stands() // the overview says why
	page.Running = v.running()
	var out bytes.Buffer
	if err := v.templates.execute(&out, page); err != nil {
		v.Log.ErrorContext(v.r.Context(), "console", "path", v.r.URL.Path, "error", err)
		http.Error(v.w, "The page could not be made. The log of this instance says why.", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(v.based(out.Bytes())) // the browser is gone
}

// based has the addresses of a page begin with Base. An attribute begins so nowhere else: a quote in
// data is written as an entity.
func (c *Console) based(page []byte) []byte {
	if c.Base == "" {
		return page
	}
	return bytes.ReplaceAll(page, []byte(`="`+Prefix), []byte(`="`+c.Base+Prefix))
}

// problem is why a page, or a part of it, is not there.
func problem(err error) *operation.Problem {
	if p, ok := errors.AsType[*operation.Problem](err); ok {
		return p
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return operation.Refuse(http.StatusGatewayTimeout, "The answer did not come within %v. The store may be away or busy: Health says which.", readWithin)
	}
	return operation.Refuse(http.StatusInternalServerError, "%v", err)
}

// fail answers with the page of a problem.
func (v *visit) fail(err error) {
	p := problem(err)
	title := map[int]string{http.StatusUnauthorized: "Log in", http.StatusNotFound: "Not found", http.StatusForbidden: "Not allowed"}[p.Status]
	if title == "" {
		title = "That did not work"
	}
	back := ""
	if v.r.Method != http.MethodGet {
		back = v.r.URL.RequestURI()
	}
	v.render(p.Status, &view{file: "problem", Title: title, Body: map[string]any{"Problem": p, "Back": back}})
}

// redirect sends the browser on after a change.
func (v *visit) redirect(to string) { http.Redirect(v.w, v.r, v.Base+to, http.StatusSeeOther) }

// part is a part of a page, which may fail while the others do not.
type part[A any] struct {
	Has     A
	Problem *operation.Problem
}

// look asks for a part of a page.
func look[A any](v *visit, ask func(context.Context) (A, error)) (p part[A]) {
	ctx, cancel := v.ctx()
	defer cancel()
	a, err := ask(ctx)
	if p.Has = a; err != nil {
		p.Problem = problem(err)
	}
	return p
}

// call asks an operation for one answer.
func call[Q, A any](v *visit, o operation.Operation[Q, A], q *Q) (A, error) {
	ctx, cancel := v.ctx()
	defer cancel()
	return o.Call(ctx, v.API, q)
}

// change asks an operation to change something, once for the key of the form, unless it has a secret. It is not given up
// because the browser is gone.
func change[Q, A any](v *visit, o operation.Operation[Q, A], q *Q) (A, error) {
	client := v.API
	if key := v.r.FormValue("key"); v.Once && key != "" && !o.Secret {
		client = client.Once(key)
	}
	defer v.moves.forget()
	return o.Call(context.WithoutCancel(v.r.Context()), client, q)
}

// gather reads a listing of at most so many; more says that there are others.
func gather[Q, A any](v *visit, l operation.Listing[Q, A], q *Q, most int) (all []A, more bool, err error) {
	ctx, cancel := v.ctx()
	defer cancel()
	for a, err := range l.Each(ctx, v.API, q) {
		if err != nil {
			return all, false, err
		}
		if len(all) == most {
			return all, true, nil
		}
		all = append(all, *a)
	}
	return all, false, nil
}

// address is a page's, of parts that are names.
func address(parts ...string) string {
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(p), ".", "%2E")
	}
	return Prefix + strings.Join(parts, "/")
}

// with is the page's own address with other parameters: name, value, name, value. An empty value takes
// the parameter away.
func (v *visit) with(pairs ...string) string {
	q := v.query()
	q.Del("cursor")
	q.Del("done")
	for i := 0; i+1 < len(pairs); i += 2 {
		if q.Del(pairs[i]); pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return query(v.r.URL.EscapedPath(), q)
}

// query is an address with a query; parameters that are empty are left out.
func query(path string, q url.Values) string {
	for name, values := range q {
		if values = slices.DeleteFunc(values, func(s string) bool { return s == "" }); len(values) == 0 {
			q.Del(name)
		} else {
			q[name] = values
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// problemOf is the problem of an error; nil: there is none.
func problemOf(err error) *operation.Problem {
	if err == nil {
		return nil
	}
	return problem(err)
}
