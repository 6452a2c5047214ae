package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// setPreferences keeps theme and time zone in this browser.
func setPreferences(v *page.Visit) (*page.View, error) {
	name := strings.TrimSpace(v.R.PostFormValue("zone"))
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		shown, err := showMe(v)
		if err == nil {
			shown.Body.(*me).Wrong, shown.Body.(*me).Zone = "There is no time zone of this name. Write it as Europe/Berlin, or UTC.", name
			v.Render(http.StatusBadRequest, shown)
		}
		return nil, err
	}
	q := url.Values{"theme": {v.R.PostFormValue("theme")}, "zone": {name}}
	http.SetCookie(v.W, &http.Cookie{Name: page.Preferences, Value: q.Encode(), Path: v.Base + Prefix, MaxAge: 400 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: v.R.TLS != nil})
	v.Redirect(page.Done(page.Address("me"), "preferences"))
	return nil, nil
}

// showMenu is the navigation as a page, for phones.
func showMenu(*page.Visit) (*page.View, error) {
	return &page.View{File: "menu", Title: "Menu", Section: "menu"}, nil
}

// me is the page of the caller.
type me struct {
	Wrong, Zone string
	Sessions    page.Part[[]api.Session]
}

func showMe(v *page.Visit) (*page.View, error) {
	return &page.View{File: "me", Title: "You and this browser", Section: "me", Body: &me{Zone: v.Zone.String(), Sessions: page.Listed(v, api.ListMySessions, &operation.Short{})}}, nil
}
