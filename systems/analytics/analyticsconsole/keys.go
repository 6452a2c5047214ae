package analyticsconsole

import (
	"net/http"
	"net/url"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/console/page"
)

// keysPage is the projects, and the keys of one.
type keysPage struct {
	of
	Keys    *page.Part[[]api.IngestKey] // nil: the caller may not see them
	Changes *page.Part[[]api.Change]
}

func keysAt(project string, more ...string) string {
	return page.Query(page.Address(append([]string{"analytics", "keys"}, more...)...), url.Values{"project": {project}})
}

func showKeys(v *page.Visit) (*page.View, error) {
	p := &keysPage{of: projectOf(v)}
	if v.May(api.ListKeys.ID) && p.Project != "" {
		keys := page.Listed(v, api.ListKeys, &api.OneProject{Project: p.Project})
		p.Keys, p.Changes = &keys, page.LastChanges(v, p.Project, api.MakeKey.ID, api.RevokeKey.ID)
	}
	return &page.View{File: "keys", Title: "Analytics: projects and keys", Section: section, Crumbs: crumbs, Body: p}, nil
}

var keyCrumbs = append(crumbs[:1:1], page.Link{Text: "Projects and keys", Href: page.Address("analytics", "keys")})

// makeKey makes a key, and shows it once.
var makeKey = &page.Action{Path: "analytics/keys/make", Op: api.MakeKey.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		project := v.Query().Get("project")
		return &page.Question{Title: "Make a key for " + page.Cut(project) + "?", Button: "Make the key", Section: section, Crumbs: keyCrumbs, Back: keysAt(project),
			CLI: page.Command("project", "make-key", project), Request: page.Request(api.MakeKey, &api.OneProject{Project: project}),
			Texts: []string{"Who has it can send events as this project. It is shown once, on the next page; the other keys go on."}}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		project := v.Query().Get("project")
		made, err := page.Change(v, api.MakeKey, &api.OneProject{Project: project})
		if err != nil {
			return "", err
		}
		v.Render(http.StatusOK, &page.View{File: "key", Title: "A key of " + page.Cut(project), Section: section, Crumbs: keyCrumbs, Body: map[string]any{"Key": made, "Back": keysAt(project)}})
		return "", nil
	}}

// revokeKey takes a key away.
var revokeKey = &page.Action{Path: "analytics/keys/revoke", Op: api.RevokeKey.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		q := oneKey(v)
		return &page.Question{Title: "Revoke the key " + page.Cut(q.Key) + "?", Button: "Revoke the key", Careful: true, Section: section, Crumbs: keyCrumbs, Back: keysAt(q.Project),
			CLI: page.Command("project", "revoke-key", q.Project, q.Key), Request: page.Request(api.RevokeKey, q),
			Texts: []string{"Who sends with it is refused within a minute. It cannot be taken back: a new key is another one."}}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		q := oneKey(v)
		_, err := page.Change(v, api.RevokeKey, q)
		return page.Done(keysAt(q.Project), "key.revoked"), page.Refilled(err)
	}}

func oneKey(v *page.Visit) *api.OneKey {
	return &api.OneKey{OneProject: api.OneProject{Project: v.Query().Get("project")}, Key: v.Query().Get("key")}
}
