package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// place is an entry of the navigation.
type place struct {
	Section, Text string
	Path          string // below Prefix
	Key           string // goes there after g
	Op            string // the operation that it needs
}

// places are the navigation, in groups.
var places = [][]place{
	{
		{"overview", "Overview", "", "o", "getStatus"},
		{"dead", "Dead letters", "dead", "d", "listDead"},
		{"queues", "Queues", "queues", "q", "listQueues"},
		{"owners", "Owners", "owners", "w", "listOwners"},
	},
	{
		{"operations", "Operations", "operations", "p", "listOperations"},
		{"books", "Books", "books", "b", "getAudit"},
		{"instances", "Instances", "instances", "i", "getStatus"},
		{"health", "Health", "health", "h", "getDoctor"},
		{"audit", "Audit trail", "audit", "a", "listAuditTrail"},
		{"access", "Access", "access", "u", "listUsers"},
		{"config", "Configuration", "config", "c", "getConfig"},
	},
	{
		{"reference", "Reference", "reference", "r", "getOpenAPI"},
	},
}

// Nav are the places that the caller may go to.
func (v *view) Nav() (groups [][]place) {
	for _, all := range places {
		var group []place
		for _, p := range all {
			if v.may(p.Op) {
				group = append(group, p)
			}
		}
		if len(group) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// Instance is the name in the header.
func (v *view) Instance() string { return v.Name }

// Environ is the environment in the header.
func (v *view) Environ() string { return v.Environment }

// Who is the caller's name; empty: nobody has come in.
func (v *view) Who() string { return v.who.Name }

// Role is the caller's.
func (v *view) Role() string { return v.who.Role.String() }

// Via is how the caller came in.
func (v *view) Via() string { return v.who.Via }

// Look is the theme that is set.
func (v *view) Look() string { return v.look }

// Zone is the time zone of the page, and how far it is from UTC.
func (v *view) Zone() string {
	if v.zone == time.UTC {
		return "UTC"
	}
	return v.zone.String() + v.at.In(v.zone).Format(" (-07:00)")
}

// ZoneName is the time zone that is set.
func (v *view) ZoneName() string { return v.zone.String() }

// May says whether the caller may do an operation.
func (v *view) May(id string) bool { return v.may(id) }

// Stream is where figures are told live.
func (v *view) Stream() string { return v.Base + operation.Prefix + api.GetStream.Path }

// TopicNames are the topics of the page, with spaces between them. A name with a space is none of them.
func (v *view) TopicNames() string {
	names := slices.DeleteFunc(slices.Clone(v.Topics), func(s string) bool { return strings.ContainsFunc(s, unicode.IsSpace) })
	return strings.Join(names, " ")
}

// With is this page's address with other parameters.
func (v *view) With(pairs ...string) string { return v.with(pairs...) }

// Asked is a parameter of this page's address.
func (v *view) Asked(name string) string { return v.query().Get(name) }

// Now is when the page was made.
func (v *view) Now() *moment { return v.When(v.at) }

// dones are what was done before this page, in words. The address says which, and no
// text of its own.
var dones = map[string]string{
	"paused": "Paused.", "resumed": "Resumed.", "draining": "It takes no new jobs; what is there is worked on.", "settings": "The settings are in force.",
	"saved": "The payload was replaced.", "preferences": "Saved.", "ended": "The session is ended.",
	"added": "The user was added.", "role": "The role was changed.", "password": "The password was changed.", "userremoved": "The user was removed.", "revoked": "The token was revoked.",
	"started": "The operation is asked for. This page says how far it is.", "stopped": "The operation is stopped.",
}

// Done says what was done before this page.
func (v *view) Done() string { return dones[v.query().Get("done")] }

// done is an address that says what was done.
func done(to, what string) string {
	q := url.Values{"done": {what}}
	path, had, _ := strings.Cut(to, "?")
	if old, err := url.ParseQuery(had); err == nil {
		for name, values := range old {
			if name != "done" {
				q[name] = values
			}
		}
	}
	return query(path, q)
}

// preferences are in a cookie of this browser: they are no secret, and change what is shown alone.
const preferences = "tidemill_console"

func (v *visit) readPreferences() {
	c, err := v.r.Cookie(preferences)
	if err != nil {
		return
	}
	q, _ := url.ParseQuery(c.Value)
	if look := q.Get("theme"); look == "light" || look == "dark" {
		v.look = look
	}
	if zone, err := time.LoadLocation(q.Get("zone")); err == nil && q.Get("zone") != "Local" {
		v.zone = zone
	}
}

// setPreferences keeps theme and time zone in this browser.
func setPreferences(v *visit) (*view, error) {
	name := strings.TrimSpace(v.r.PostFormValue("zone"))
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		page, err := showMe(v)
		if err == nil {
			page.Body.(*me).Wrong, page.Body.(*me).Zone = "There is no time zone of this name. Write it as Europe/Berlin, or UTC.", name
			v.render(http.StatusBadRequest, page)
		}
		return nil, err
	}
	q := url.Values{"theme": {v.r.PostFormValue("theme")}, "zone": {name}}
	http.SetCookie(v.w, &http.Cookie{Name: preferences, Value: q.Encode(), Path: v.Base + Prefix, MaxAge: 400 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: v.r.TLS != nil})
	v.redirect(done(address("me"), "preferences"))
	return nil, nil
}

// showMenu is the navigation as a page, for phones.
func showMenu(*visit) (*view, error) {
	return &view{file: "menu", Title: "Menu", Section: "menu"}, nil
}

// me is the page of the caller.
type me struct {
	Wrong, Zone string
	Sessions    part[[]api.Session]
}

func showMe(v *visit) (*view, error) {
	page := &me{Zone: v.zone.String()}
	page.Sessions = look(v, func(context.Context) ([]api.Session, error) {
		all, _, err := gather(v, api.ListMySessions, &operation.None{}, 100)
		return all, err
	})
	return &view{file: "me", Title: "You and this browser", Section: "me", Body: page}, nil
}
