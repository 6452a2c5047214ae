package page

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// Action is a change. Its page says what will happen, and its form does it; the parameters of both
// are in the address.
type Action struct {
	Path string // below Prefix, with {wildcards}
	Op   string // the operation that does it
	Ask  func(*Visit) (*Question, error)
	Do   func(*Visit) (to string, err error) // to is empty where it has answered
}

// Question is what the page of an action asks.
type Question struct {
	Title   string
	Texts   []string // what will happen, a sentence or more each
	Sample  []Link   // of what is meant
	Button  string
	Careful bool   // what is done cannot be taken back
	Word    string // has to be typed; empty: nothing
	Nothing string // why there is nothing to do; empty: there is
	Back    string
	CLI     string
	Request string // of the API
	Section string
	Crumbs  []Link
	Edit    *Editing // of a payload
	Inputs  []Input  // of a form of a few fields
	Groups  []Group  // of more fields
	Hidden  []Fact   // fields that are not shown
	ETag    string   // of what was seen, which is changed of that alone; empty: whatever is there
	Many    *Preview // of an operation
	Check   string   // the button that only has it checked, which the form sends as check; empty: there is none
	Checked *Checked // nil: it was not checked

	Action string // where the form goes, from a dialog too
	Key    string
	Spent  bool   // its key is that of a request that was answered: the next one has another
	Wrong  string // with what was given
	Where  []Link // what is wrong, with the field of each
}

// Checked is what a change would change.
type Checked struct{ Would []api.SettingChange }

// Input is a field of a form.
type Input struct {
	Name, Label, Kind, Value string   // Kind is that of HTML; of a password nothing is shown again
	Choices                  []string // it is one of them
	Help                     string
	Mode                     string // which keys a phone shows: decimal or numeric; empty: letters
	Auto                     string // what the browser may fill in
	Optional                 bool
	Lines                    int    // of text; 0: it is one line
	Set                      bool   // it has a value that is not shown, and keeps it where it is left empty
	Error                    string // what is wrong with it
	Now                      string // what it is now, where somebody else changed it
}

// Group is fields of a form that belong together.
type Group struct {
	Legend string
	Inputs []Input
	Folded bool // it is seldom needed: its fields are shown on demand, or where one has a value or is wrong
}

// Open says whether the fields of a group are shown at once.
func (g Group) Open() bool {
	return !g.Folded || slices.ContainsFunc(g.Inputs, func(i Input) bool { return i.Value != "" || i.Set || i.Error != "" || i.Now != "" })
}

func (a *Action) view(v *Visit, q *Question) *View {
	if q.Key = v.R.PostFormValue("key"); q.Key == "" || q.Wrong == "" || q.Spent {
		q.Key = v.Key()
	}
	q.Action = v.R.URL.RequestURI()
	return &View{File: "ask", Title: q.Title, Section: q.Section, Crumbs: q.Crumbs, Body: q}
}

// Allowed refuses a page, or what it does, to who may not do its operation.
func (v *Visit) Allowed(what, id string) error {
	switch d := v.does[id]; {
	case d == nil:
		return operation.Refuse(http.StatusNotFound, "%s is not here.", what)
	case !d.May(v.Caller.Rights):
		return d.Forbid(what, v.Caller)
	case d.Fresh && !v.Caller.Fresh(v.At, operation.FreshFor):
		return operation.NeedLogin("This")
	}
	return nil
}

// show is the page that asks.
func (a *Action) show(v *Visit) (*View, error) {
	if err := v.Allowed(a.Op, a.Op); err != nil {
		return nil, err
	}
	q, err := a.Ask(v)
	if err != nil {
		return nil, err
	}
	return a.view(v, q), nil
}

// largestForm is how many bytes a form may have: a payload of 4 MiB, and what is around it.
const largestForm = 5 << 20

// Wrong is what is wrong with a form that was filled in. The page shows it with the form.
type Wrong struct {
	Text   string
	Status int  // 0: that of a form that cannot be processed
	Spent  bool // see Question
}

func (w *Wrong) Error() string { return w.Text }

// post does it, and goes on to the page that shows what became of it.
func (a *Action) post(v *Visit) (*View, error) {
	if err := v.Allowed(a.Op, a.Op); err != nil {
		return nil, err
	}
	v.R.Body = http.MaxBytesReader(v.W, v.R.Body, largestForm)
	if err := v.R.ParseMultipartForm(largestForm); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return nil, operation.Refuse(http.StatusRequestEntityTooLarge, "The form cannot be read: %v. A payload has at most 4 MiB.", err)
	}
	to, err := a.Do(v)
	if w, ok := errors.AsType[*Wrong](err); ok {
		q, err := a.Ask(v)
		if err != nil {
			return nil, err
		}
		q.Wrong, q.Spent = w.Text, w.Spent
		a.Answer(v, cmp.Or(w.Status, http.StatusUnprocessableEntity), q)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if to != "" { // else it has answered
		v.Redirect(to)
	}
	return nil, nil
}

// Answer answers a form by the form.
func (a *Action) Answer(v *Visit, status int, q *Question) { v.Render(status, a.view(v, q)) }

// Typed refuses a form in which the word was not typed that it asks for.
func (v *Visit) Typed(word string) error {
	if got := strings.ReplaceAll(strings.TrimSpace(v.R.PostFormValue("word")), ",", ""); got != strings.ReplaceAll(word, ",", "") {
		return &Wrong{Text: "Nothing was changed. Type " + word + " to go on."}
	}
	return nil
}

// manyAt is how many things are so many that the number has to be typed.
const manyAt = 1000

// WordFor is what has to be typed before so many are changed; empty: nothing. Where the environment is
// production it is the environment's name.
func (v *Visit) WordFor(count int) string {
	switch {
	case count > 1 && strings.EqualFold(v.Environment, "production"):
		return v.Environment
	case count > manyAt:
		return Number(count)
	}
	return ""
}

// Back is where an action was asked for: a page of this console, else another one.
func (v *Visit) Back(or string) string {
	return v.Local(v.Query().Get("back"), or)
}

// Request is how the API is asked the same.
func Request[Q, A any](o operation.Operation[Q, A], q *Q) string { return RequestOf(o.Description, q) }

// RequestOf is Request where the types are not known: q is a pointer to a request; nil: none could be made.
func RequestOf(d *operation.Description, q any) string {
	at := operation.Full(d)
	if q != nil {
		if u, err := d.URL(q); err == nil {
			at = u
		}
	}
	return d.Method + " " + at
}

// Command is a line for a shell.
func Command(words ...string) string {
	for i, w := range words {
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/=@,+", r)
		}) {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return "tidemill " + strings.Join(words, " ")
}

// Refilled has a form shown again with what is wrong with it.
func Refilled(err error) error {
	if p := Problem(err); p != nil && (p.Status == http.StatusBadRequest || p.Status == http.StatusConflict) {
		return &Wrong{Text: p.Detail, Spent: Spent(p)}
	}
	return err
}

// Spent says whether a problem is the answer of its key from now on: of a conflict, but that of a request which is
// worked on.
func Spent(p *operation.Problem) bool { return p.Status == http.StatusConflict && p.After == 0 }

// Overtaken has a form shown again with what was typed, where somebody else has changed the same since the form was
// made. Sent again it is a change of what is there now.
func Overtaken(v *Visit, err error) error {
	p := Problem(err)
	if p == nil || p.Status != http.StatusPreconditionFailed {
		return err
	}
	who := "somebody else"
	if p.Changed != nil {
		who = Cut(p.Changed.By)
	}
	v.overtaken = true
	v.R.PostForm.Del("etag")
	return &Wrong{Status: http.StatusPreconditionFailed,
		Text: "Nothing was changed: " + who + " was first, while you filled in this form. What you typed is kept in it. Sent again, it is a change of what is there now."}
}

// Overtaken says that a form is shown again because somebody else was first.
func (v *Visit) Overtaken() bool { return v.overtaken }
