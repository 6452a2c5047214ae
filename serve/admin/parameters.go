package admin

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// parameters are what may be asked of a route. Who writes one wrong would get more than was
// meant, or change more: it is refused.
type parameters struct {
	names []string
	form  bool // they may come in the body of a change, too
}

// query are parameters of the URL.
func query(names ...string) parameters { return parameters{names: names} }

// form are parameters of the URL, or of the form of a change.
func form(names ...string) parameters { return parameters{names, true} }

// moving are those of changes of many.
var moving = []string{"all", "dry_run"}

// check refuses parameters that the route does not know.
func (p parameters) check(r *http.Request) error {
	given := r.URL.Query()
	if p.form {
		if err := r.ParseForm(); err != nil {
			return refused(http.StatusBadRequest, "%v", err)
		}
		given = r.Form
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(p.names, name):
		case len(p.names) == 0:
			return refused(http.StatusBadRequest, "%.120q is no parameter: there are none here", name)
		default:
			return refused(http.StatusBadRequest, "%.120q is no parameter: there are %s", name, strings.Join(p.names, ", "))
		}
	}
	return nil
}
