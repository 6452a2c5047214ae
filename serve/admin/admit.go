package admin

import (
	"net/http"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Gate is what lets callers into the API, and people into the console.
func (a *API) Gate() access.Gate { return a.guard }

// SignIn is what lets people in by providers of OpenID Connect.
func (a *API) SignIn() access.SignIn { return a.guard }

// GuardByToken lets only those admins into another handler who show a token, with NoAuth too: what a
// profile shows is more than what the API does, keys for instance.
func (a *API) GuardByToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := a.guard.Token(r)
		if err == nil && !who.Rights.May(caller.Admin, "") {
			err = operation.Refuse(http.StatusForbidden, "profiles need the role %v, and %s has the role %v", caller.Admin, who.Name, who.Rights)
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Admits says whether a request would be let in to look at a system, without counting it where it shows
// nothing.
func (a *API) Admits(r *http.Request, system string) bool {
	if !a.NoAuth && r.Header.Get("Authorization") == "" && r.Header.Get("Cookie") == "" {
		return false
	}
	who, err := a.guard.Caller(r)
	return err == nil && who.Rights.May(caller.Viewer, system)
}
