package console

import (
	"errors"
	"net/http"
	"strings"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// action is a change. Its page says what will happen, and its form does it; the parameters of both
// are in the address.
type action struct {
	path string
	op   string // the operation that does it
	ask  func(*visit) (*question, error)
	do   func(*visit) (to string, err error) // to is empty where it has answered
}

// question is what the page of an action asks.
type question struct {
	Title   string
	Texts   []string // what will happen, a sentence or more each
	Sample  []link   // of what is meant
	Button  string
	Careful bool   // what is done cannot be taken back
	Word    string // has to be typed; empty: nothing
	Nothing string // why there is nothing to do; empty: there is
	Back    string
	CLI     string
	Request string // of the API
	Section string
	Crumbs  []link
	Fields  *fields     // of a form for more than a yes
	Edit    *editing    // of a payload
	Inputs  []input     // of a form of a few fields
	Many    *manyThings // of an operation

	Action string // where the form goes, from a dialog too
	Key    string
	Wrong  string // with what was given
}

func (a *action) view(v *visit, q *question) *view {
	if q.Key = v.r.PostFormValue("key"); q.Key == "" || q.Wrong == "" {
		q.Key = v.Key()
	}
	q.Action = v.r.URL.RequestURI()
	return &view{file: "ask", Title: q.Title, Section: q.Section, Crumbs: q.Crumbs, Body: q}
}

// allowed refuses a page, or what it does, to who may not do its operation.
func (v *visit) allowed(what, id string) error {
	if v.may(id) {
		return nil
	}
	return operation.Refuse(http.StatusForbidden, "%s is for the role %v, and %s has the role %v.", what, v.roles[id], v.who.Name, v.who.Role)
}

// show is the page that asks.
func (a *action) show(v *visit) (*view, error) {
	if err := v.allowed(a.op, a.op); err != nil {
		return nil, err
	}
	q, err := a.ask(v)
	if err != nil {
		return nil, err
	}
	return a.view(v, q), nil
}

// largestForm is how many bytes a form may have: a payload of 4 MiB, and what is around it.
const largestForm = 5 << 20

// wrong is what is wrong with a form that was filled in. The page shows it with the form.
type wrong struct{ text string }

func (w *wrong) Error() string { return w.text }

// post does it, and goes on to the page that shows what became of it.
func (a *action) post(v *visit) (*view, error) {
	if err := v.allowed(a.op, a.op); err != nil {
		return nil, err
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, largestForm)
	if err := v.r.ParseMultipartForm(largestForm); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return nil, operation.Refuse(http.StatusRequestEntityTooLarge, "The form cannot be read: %v. A payload has at most 4 MiB.", err)
	}
	to, err := a.do(v)
	if w, ok := errors.AsType[*wrong](err); ok {
		q, err := a.ask(v)
		if err != nil {
			return nil, err
		}
		q.Wrong = w.text
		v.render(http.StatusUnprocessableEntity, a.view(v, q))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if to != "" { // else it has answered
		v.redirect(to)
	}
	return nil, nil
}

// typed refuses a form in which the word was not typed that it asks for.
func (v *visit) typed(word string) error {
	if got := strings.ReplaceAll(strings.TrimSpace(v.r.PostFormValue("word")), ",", ""); got != strings.ReplaceAll(word, ",", "") {
		return &wrong{"Nothing was changed. Type " + word + " to go on."}
	}
	return nil
}

// manyAt is how many things are so many that the number has to be typed.
const manyAt = 1000

// wordFor is what has to be typed before so many are changed; empty: nothing. Where the environment is
// production it is the environment's name.
func (v *visit) wordFor(count int) string {
	switch {
	case count > 1 && strings.EqualFold(v.Environment, "production"):
		return v.Environment
	case count > manyAt:
		return number(count)
	}
	return ""
}

// back is where an action was asked for: a page of this console, else another one.
func (v *visit) back(or string) string {
	return v.local(v.query().Get("back"), or)
}

// request is how the API is asked the same.
func request[Q, A any](o operation.Operation[Q, A], q *Q) string {
	u, err := o.URL(q)
	if err != nil {
		return o.Method + " " + operation.Prefix + o.Path
	}
	return o.Method + " " + u
}

// command is a line for a shell.
func command(words ...string) string {
	for i, w := range words {
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/=@,+", r)
		}) {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return "tidemill " + strings.Join(words, " ")
}
