package admin

import (
	"context"
	"fmt"
	"html/template"
	"iter"
	"net/http"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/shield"
)

func listProblems(context.Context, *operation.None) (iter.Seq2[operation.ProblemKind, error], error) {
	return answer.Listed(operation.ProblemKinds, func(k *operation.ProblemKind) operation.ProblemKind { return *k }), nil
}

func getProblem(_ context.Context, q *api.OneProblem) (operation.ProblemKind, error) {
	k, ok := operation.KindOf(q.Name)
	if !ok {
		return k, operation.Refuse(http.StatusNotFound, "no kind of problem is called %.120q: GET %s lists them", q.Name, operation.Full(api.ListProblems.Description))
	}
	return k, nil
}

// explaining is getProblem, with a page for a browser.
func explaining() operation.Handler {
	h := api.GetProblem.By(getProblem)
	forPrograms := h.Serve
	h.Serve = func(w http.ResponseWriter, r *http.Request) error {
		k, ok := operation.KindOf(r.PathValue("name"))
		if !ok || r.URL.RawQuery != "" || !operation.ForBrowser(r) {
			return forPrograms(w, r)
		}
		browsed(w, http.StatusOK, &browsedPage{Title: k.Title, Texts: []string{k.Text, fmt.Sprintf("The status is %d.", k.Status)}})
		return nil
	}
	return h
}

// browsedPage is what somebody is shown who looks at the API with a browser.
type browsedPage struct {
	Title   string
	Texts   []string
	Kind    string // where the kind of problem is explained; empty: nowhere
	Request string
}

var browsedTemplate = template.Must(template.New("browsed").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{{.Title}}</title></head>
<body><main><h1>{{.Title}}</h1>{{range .Texts}}<p>{{.}}</p>{{end}}{{with .Kind}}<p><a href="{{.}}">What this means</a></p>{{end}}{{with .Request}}<p>The request is <code>{{.}}</code> in the log.</p>{{end}}</main></body></html>
`))

// browsed answers with a page.
func browsed(w http.ResponseWriter, status int, p *browsedPage) {
	shield.Page(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = browsedTemplate.Execute(w, p) // the client is gone, or will see that it is cut
}

// problem answers with a problem: with a page, where a browser reads.
func problem(w http.ResponseWriter, r *http.Request, p *operation.Problem) {
	w.Header().Add("Vary", "Accept")
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !operation.ForBrowser(r) {
		operation.Write(w, p.Status, operation.ProblemType, p)
		return
	}
	page := &browsedPage{Title: p.Title, Texts: []string{p.Detail}, Request: p.Instance}
	if p.Type != operation.NoKind {
		page.Kind = p.Type
	}
	browsed(w, p.Status, page)
}
