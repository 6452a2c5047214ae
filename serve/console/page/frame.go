package page

import (
	"cmp"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/view"
)

// Prefix of every page.
const Prefix = "/console/"

// Parts are what pages stand on.
type Parts struct {
	API        *operation.Client // calls the API as the caller whom a context carries
	Operations []operation.Handler
	Once       bool // the API takes Idempotency-Keys

	Base        string // what a proxy has before Prefix and takes away, without an end of "/"; empty: nothing
	Name        string // of this instance, in the header and in the title; empty: Tidemill
	Environment string // as production; empty: none is shown
	Colour      string // of the environment, on every page: a name that the style sheet knows; empty: grey
	Log         *slog.Logger
	Now         func() time.Time // nil: time.Now
	Key         func() string    // makes an Idempotency-Key; nil: a random one
}

// Frame is what all pages of a console are in.
type Frame struct {
	Parts
	AskLogin func(v *Visit, status int, why string) // answers with the page where people come in

	asset     func(name string) string
	templates templates
	places    []Place
	said      map[string]string
	things    map[string]func(map[string]string) string
	described map[string]Described              // by their kinds
	does      map[string]*operation.Description // by their ids
	standing  shared[*api.Overview]
	moves     shared[[]api.Operation] // that are active
	queues    shared[[]api.Queue]
}

// New makes the frame of some sets and has mux answer their pages. Here says whose system runs: the
// places of others are not shown. Asset is the address of a file that pages load.
func New(p Parts, mux *http.ServeMux, asset func(name string) string, here func(*Set) bool, sets ...*Set) (*Frame, error) {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Key == nil {
		p.Key = rand.Text
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	p.Log = operation.Logging(p.Log)
	p.Name = cmp.Or(p.Name, "Tidemill")
	f := &Frame{Parts: p, asset: asset, said: map[string]string{}, things: map[string]func(map[string]string) string{}, described: map[string]Described{}, does: map[string]*operation.Description{}}
	for _, o := range p.Operations {
		f.does[o.ID] = o.Description
	}
	for _, s := range sets {
		if err := f.join(s, here(s)); err != nil {
			return nil, err
		}
		f.handle(mux, s)
	}
	slices.SortStableFunc(f.places, func(a, b Place) int { return cmp.Compare(a.Group, b.Group) })
	var err error
	f.templates, err = f.parse(sets)
	return f, err
}

// Serve is the handler of a page of a set, which answers by itself or is rendered.
func (f *Frame) Serve(s *Set, show func(*Visit) (*View, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := f.Visit(s, w, r)
		page, err := show(v)
		switch {
		case err != nil:
			v.Fail(err)
		case page != nil:
			v.Render(http.StatusOK, page)
		}
	}
}

// Nav are the places that the caller may go to.
func (v *View) Nav() (groups [][]Place) {
	last := 0
	for _, p := range v.places {
		switch {
		case !v.May(p.Op):
			continue
		case len(groups) == 0 || p.Group != last:
			groups = append(groups, nil)
		}
		last = p.Group
		groups[len(groups)-1] = append(groups[len(groups)-1], p)
	}
	return groups
}

// PlaceAt is the place of the navigation that is called so, for who may go there; empty: there is none.
func (v *Visit) PlaceAt(name string) string {
	i := slices.IndexFunc(v.places, func(p Place) bool { return strings.EqualFold(p.Text, name) && v.May(p.Op) })
	if i < 0 {
		return ""
	}
	return Prefix + v.places[i].Path
}

// Instance is the name in the header.
func (v *View) Instance() string { return v.Name }

// Environ is the environment in the header.
func (v *View) Environ() string { return v.Environment }

// Who is the caller's name; empty: nobody has come in.
func (v *View) Who() string { return v.Caller.Name }

// Role is the caller's.
func (v *View) Role() string { return v.Caller.Rights.String() }

// Via is how the caller came in.
func (v *View) Via() string { return v.Caller.Via }

// ZoneWords are the time zone of the page, and how far it is from UTC.
func (v *View) ZoneWords() string {
	if v.Zone == time.UTC {
		return "UTC"
	}
	return v.Zone.String() + v.At.In(v.Zone).Format(" (-07:00)")
}

// Stream is where figures are told live.
func (v *View) Stream() string { return v.Base + operation.Prefix + api.GetStream.Path }

// TopicNames are the topics of the page, with spaces between them. A name with a space is none of them.
func (v *View) TopicNames() string {
	names := slices.DeleteFunc(slices.Clone(v.Topics), func(s string) bool { return strings.ContainsFunc(s, unicode.IsSpace) })
	return strings.Join(names, " ")
}

// Fixed is a link to what the page shows now, where its filter says how long ago: in the link that is a time in
// UTC, with an end, so that it shows the same tomorrow. Empty: no time of the filter is an age.
func (v *View) Fixed() string {
	q := v.Query()
	s := api.Span{Since: q.Get("since"), Until: q.Get("until")}
	if !isAge(s.Since) && !isAge(s.Until) {
		return ""
	}
	at := v.At.UTC().Truncate(time.Second)
	if s = s.Fixed(at); s.Until == "" {
		s.Until = at.Format(time.RFC3339)
	}
	return v.Here("since", s.Since, "until", s.Until)
}

// unsaved are the pages that nobody saves: those that ask, and those that are of this visit alone.
var unsaved = []string{"ask", "problem", "login", "token", "me", "menu", "views", "find", "overview"}

// SaveAt is the page that saves the address of this one under a name; empty: there is none, or the caller may not.
// Ages of its filter stay ages.
func (v *View) SaveAt() string {
	if v.R.Method != http.MethodGet || slices.Contains(unsaved, v.File) || !v.May(api.SaveView.ID) {
		return ""
	}
	q := v.Query()
	for _, name := range view.OnceParameters() {
		q.Del(name)
	}
	at := Query(v.R.URL.EscapedPath(), q)
	if view.CheckAddress(at) != nil {
		return ""
	}
	return Query(Address("views", "save"), url.Values{"address": {at}})
}

// isAge says whether a text of a filter is a time that is so and so long ago.
func isAge(text string) bool {
	s := api.Span{Since: text}
	return s.Fixed(time.Unix(0, 0)) != s.Fixed(time.Unix(1, 0))
}

// Asked is a parameter of this page's address.
func (v *View) Asked(name string) string { return v.Query().Get(name) }

// Now is when the page was made.
func (v *View) Now() *Moment { return v.When(v.At) }

// Done says what was done before this page. The address says which, and no text of its own.
func (v *View) Done() string { return v.said[v.Query().Get("done")] }

// Done is an address that says what was done, which Set.Said has words for.
func Done(to, what string) string {
	q := url.Values{"done": {what}}
	path, had, _ := strings.Cut(to, "?")
	if old, err := url.ParseQuery(had); err == nil {
		for name, values := range old {
			if name != "done" {
				q[name] = values
			}
		}
	}
	return Query(path, q)
}

// Preferences is the cookie that keeps theme and time zone in a browser: they are no secret, and change
// what is shown alone.
const Preferences = "tidemill_console"

func (v *Visit) readPreferences() {
	c, err := v.R.Cookie(Preferences)
	if err != nil {
		return
	}
	q, _ := url.ParseQuery(c.Value)
	if look := q.Get("theme"); look == "light" || look == "dark" {
		v.Theme = look
	}
	if zone, err := time.LoadLocation(q.Get("zone")); err == nil && q.Get("zone") != "Local" {
		v.Zone = zone
	}
}
