package page

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// readWithin is how long a page waits for an answer of the API.
const readWithin = 2 * time.Second

// Visit is one request for a page.
type Visit struct {
	*Frame
	W      http.ResponseWriter
	R      *http.Request
	Caller caller.Caller
	At     time.Time // of the page; ages are of it
	Zone   *time.Location
	Theme  string // light or dark; empty: as the system has it
	set    *Set
	query  url.Values // see Query; nil: it was not read yet

	overtaken bool // see Overtaken
}

// Visit is a request for a page of a set. Its context carries the caller.
func (f *Frame) Visit(s *Set, w http.ResponseWriter, r *http.Request) *Visit {
	v := &Visit{Frame: f, W: w, R: r, Caller: caller.From(r.Context()), At: f.Now(), Zone: time.UTC, set: s}
	v.readPreferences()
	v.query = v.read() // once: each link of a row asks for it
	return v
}

// Context is that of reads, which have two seconds.
func (v *Visit) Context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(v.R.Context(), readWithin)
}

// May says whether the caller may do an operation, by its id. What the API does not describe nobody may.
func (v *Visit) May(id string) bool {
	d := v.does[id]
	return d != nil && d.May(v.Caller.Rights)
}

// Query is the query of the page's address. Days, and times that say no zone, are of the zone of the
// page, and become times in UTC, as those of another zone do: an address that is passed on means the same
// to everybody.
// It is the caller's own.
func (v *Visit) Query() url.Values {
	if v.query == nil {
		return v.read()
	}
	q := make(url.Values, len(v.query))
	for name, values := range v.query {
		q[name] = slices.Clone(values)
	}
	return q
}

func (v *Visit) read() url.Values {
	q := v.R.URL.Query()
	for name, days := range map[string]int{"since": 0, "until": 1} { // until has all of its day
		for i, text := range q[name] {
			if t, is := v.local(text, days); is {
				q[name][i] = t.UTC().Format(time.RFC3339Nano)
			}
		}
	}
	return q
}

// Clock is a time of the address as the zone of the page has it; what is no time, an age, stays.
func (v *Visit) Clock(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return t.In(v.Zone).Format(time.RFC3339Nano)
}

// own are parameters that any page may have beside those of what it shows.
var own = []string{"back", "chosen", "done", "span"}

// Filter reads the page's query into the request of the operation that the page shows. Other
// parameters, but those that all pages have and the page's also, are refused: who writes a filter wrong
// would be shown more than was meant, and be offered to change it.
func (v *Visit) Filter(d *operation.Description, q any, also ...string) error {
	return Given(v.Query(), d, q, also...)
}

// Given is Filter of a query that the page has completed.
func Given(query url.Values, d *operation.Description, q any, also ...string) error {
	var known []string
	for i := range d.Params {
		if p := &d.Params[i]; p.In == operation.InQuery || p.In == operation.InPath {
			known = append(known, p.Name)
		}
	}
	if name, is := operation.Unknown(query, known, also, own); is {
		return operation.NoParameter(name, known)
	}
	return d.Parse(query, q)
}

// local is a day, or a time without a zone, as the zone of the page has it, or a time of another zone than UTC; false:
// it is none.
func (v *Visit) local(text string, days int) (time.Time, bool) {
	if v.Zone == nil {
		return time.Time{}, false
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, !strings.HasSuffix(text, "Z")
	}
	for _, form := range []string{"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", time.DateTime} {
		if t, err := time.ParseInLocation(form, text, v.Zone); err == nil {
			return t, true
		}
	}
	t, err := time.ParseInLocation(time.DateOnly, text, v.Zone)
	return t.AddDate(0, 0, days), err == nil && v.Zone != time.UTC // of UTC the API knows days
}

// View is what a page shows.
type View struct {
	*Visit
	File     string // in templates, without its end
	Title    string
	Crumbs   []Link   // above this page
	Section  string   // of the navigation, that the page is in
	Live     bool     // its figures are fetched again while somebody looks
	Topics   []string // of the stream, that say when its figures are others
	Body     any
	Standing *api.Overview   // how all stands; nil: it is not known
	Running  []api.Operation // that are scheduled or run
}

// Link is a place to go to.
type Link struct{ Text, Href string }

// buffers are what pages were made in; the next page takes one again.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Render writes a page. It is made whole before it is sent, so that an error is a page too.
func (v *Visit) Render(status int, page *View) {
	page.Visit = v
	page.Standing, _ = v.Stands() // the overview says why
	page.Running = v.running()
	out, _ := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(out)
	out.Reset()
	if err := v.templates.execute(out, page); err != nil {
		// Logged when a page cannot be made of what the API answered; the answer is 500.
		// To do: report it with its error.
		v.Log.ErrorContext(v.R.Context(), "a page of the console could not be made", "path", v.R.URL.Path, "error", err)
		http.Error(v.W, "The page could not be made. The log of this instance says why.", http.StatusInternalServerError)
		return
	}
	v.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.W.WriteHeader(status)
	_, _ = v.W.Write(v.based(out.Bytes())) // the browser is gone
}

// based has the addresses of a page begin with Base. An attribute begins so nowhere else: a quote in
// data is written as an entity.
func (f *Frame) based(page []byte) []byte {
	if f.Base == "" {
		return page
	}
	return bytes.ReplaceAll(page, []byte(`="`+Prefix), []byte(`="`+f.Base+Prefix))
}

// Problem is why a page, or a part of it, is not there; nil: there is no error.
func Problem(err error) *operation.Problem {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*operation.Problem](err); ok {
		return p
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return operation.Refuse(http.StatusGatewayTimeout, "The answer did not come within %v. The store may be away or busy: Health says which.", readWithin)
	}
	return operation.Refuse(http.StatusInternalServerError, "%v", err)
}

// Fail answers with the page of a problem.
func (v *Visit) Fail(err error) {
	p := Problem(err)
	if p.Type == operation.LoginAgain {
		v.AskLogin(v, p.Status, p.Detail)
		return
	}
	if p.After > 0 {
		v.W.Header().Set("Retry-After", strconv.Itoa(p.After))
	}
	title := map[int]string{http.StatusUnauthorized: "Log in", http.StatusNotFound: "Not found", http.StatusForbidden: "Not allowed"}[p.Status]
	if title == "" {
		title = "That did not work"
	}
	back, without := "", []Link(nil)
	if v.R.Method != http.MethodGet {
		back = v.R.URL.RequestURI()
	} else if p.Status == http.StatusBadRequest {
		without = v.Active(slices.Sorted(maps.Keys(v.Query()))...)
	}
	v.Render(p.Status, &View{File: "problem", Title: title, Body: map[string]any{"Problem": p, "Back": back, "Without": without}})
}

// Redirect sends the browser on after a change.
func (v *Visit) Redirect(to string) { http.Redirect(v.W, v.R, v.Base+to, http.StatusSeeOther) }

// Part is a part of a page, which may fail while the others do not.
type Part[A any] struct {
	Has     A
	Problem *operation.Problem
	Looked  int // there may be more: so many entries were looked at; 0: it is all that was asked for
}

// Look asks for a part of a page.
func Look[A any](v *Visit, ask func(context.Context) (A, error)) Part[A] {
	ctx, cancel := v.Context()
	defer cancel()
	a, err := ask(ctx)
	if rest, early := errors.AsType[*operation.Rest](err); early {
		return Part[A]{Has: a, Looked: rest.Looked}
	}
	return Part[A]{Has: a, Problem: Problem(err)}
}

// Call asks an operation for one answer.
func Call[Q, A any](v *Visit, o operation.Operation[Q, A], q *Q) (A, error) {
	ctx, cancel := v.Context()
	defer cancel()
	return o.Call(ctx, v.API, q)
}

// Change asks an operation to change something, once for the key of the form, unless it has a secret. It is not given up
// because the browser is gone.
func Change[Q, A any](v *Visit, o operation.Operation[Q, A], q *Q) (A, error) {
	client := v.API
	if key := v.R.FormValue("key"); v.Once && key != "" && !o.Secret {
		client = client.Once(key)
	}
	defer v.moves.forget()
	defer v.queues.forget()
	return o.Call(context.WithoutCancel(v.R.Context()), client, q)
}

// Gather reads a listing of at most so many; more says that there are others.
func Gather[Q, A any](v *Visit, l operation.Listing[Q, A], q *Q, most int) (all []A, more bool, err error) {
	ctx, cancel := v.Context()
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

// Address is a page's, of parts that are names.
func Address(parts ...string) string {
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(p), ".", "%2E")
	}
	return Prefix + strings.Join(parts, "/")
}

// Here is the page's own address with other parameters: name, value, name, value. An empty value takes
// the parameter away.
func (v *Visit) Here(pairs ...string) string {
	q := v.Query()
	q.Del("cursor")
	q.Del("done")
	for i := 0; i+1 < len(pairs); i += 2 {
		if q.Del(pairs[i]); pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return Query(v.R.URL.EscapedPath(), q)
}

// Query is an address with a query; parameters that are empty are left out.
func Query(path string, q url.Values) string {
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

// Paging completes what an address asks of a list: 50 rows where it says none, 25 to 200, and the newest first.
func (v *Visit) Paging(p *operation.Page) {
	if p.Limit == 0 {
		p.Limit = 50
	}
	p.Limit = min(max(p.Limit, 25), 200)
	if p.Order == "" {
		p.Order = "newest"
	}
}

// Newest says whether a list shows what is newest, so that what comes is before its first row.
func (v *Visit) Newest() bool {
	q := v.Query()
	return q.Get("cursor") == "" && q.Get("order") != "oldest"
}

// Active are the filters of a list that are set.
func (v *Visit) Active(names ...string) (all []Link) {
	for _, name := range names {
		for _, value := range v.Query()[name] {
			if value != "" {
				says := value
				if name == "since" || name == "until" {
					says = v.Clock(value)
				}
				all = append(all, Link{name + " = " + Cut(says), v.Here(name, "")})
			}
		}
	}
	return all
}

// Local is an address of this console, else another one.
func (v *Visit) Local(to, or string) string {
	to = strings.TrimPrefix(to, v.Base)
	u, err := url.Parse(to)
	if err != nil || !strings.HasPrefix(to, Prefix) || u.Host != "" || u.Scheme != "" || strings.Contains(to, "//") || strings.Contains(to, "\\") {
		return or
	}
	return to
}

// listedMost is how many entries of a listing Listed reads.
const listedMost = 1000

// Listed is a listing as a part of a page, its first thousand.
func Listed[Q, A any](v *Visit, l operation.Listing[Q, A], q *Q) Part[[]A] {
	return Look(v, func(context.Context) ([]A, error) {
		all, _, err := Gather(v, l, q, listedMost)
		return all, err
	})
}
