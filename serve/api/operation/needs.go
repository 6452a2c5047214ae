package operation

import (
	"fmt"
	"net/http"

	"github.com/tidemill/tidemill/serve/caller"
)

// TakesAway says whether a request takes away what a listing has of people: all that match, whether it goes on behind
// them or not, or in the form for other programs. The audit trail has each such request. It is no method, which each of a
// hundred operations would have; no more are those below.
func TakesAway(d *Description, r *http.Request) bool {
	q := r.URL.Query()
	return d.Exports && (asExport(r) || follows(q) && !few(q, "newest") || inLines(d, r) && !few(q, "max", "newest"))
}

func asExport(r *http.Request) bool { return r.URL.Query().Get("format") == "export" }

// Needs is the operation as a request needs it, and what people call that: to take away what a listing has of people,
// and to have all of a listing counted, is for operators, whoever may see its pages.
func Needs(d *Description, r *http.Request) (*Description, string) {
	what := ""
	switch {
	case d.Role >= caller.Operator:
		return d, d.ID
	case d.Exports && asExport(r):
		what = d.ID + " with format=export"
	case TakesAway(d, r) && follows(r.URL.Query()):
		what = fmt.Sprintf("following %s from its beginning, and not from its newest on (newest=%d),", d.ID, LimitsOfPages().Most)
	case TakesAway(d, r):
		what = fmt.Sprintf("reading all of %s, and not a page or up to %[2]d lines (max=%[2]d),", d.ID, LimitsOfPages().Most)
	case d.Paged() && r.URL.Query().Get("count") == countExact:
		what = d.ID + " with count=exact, and not count=bounded,"
	default:
		return d, d.ID
	}
	own := *d
	own.Role = caller.Operator
	return &own, what
}
