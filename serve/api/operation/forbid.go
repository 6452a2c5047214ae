package operation

import (
	"net/http"

	"github.com/tidemill/tidemill/serve/caller"
)

// Forbid is why a caller may not do an operation: the role that is missing, and for which systems. What
// is its name, or what people call what it does.
func (d *Description) Forbid(what string, who caller.Caller) *Problem {
	return Refuse(http.StatusForbidden, "%s needs the role %v%s, and %s has the role %v", what, d.Role, forWhich(d, who), who.Name, who.Rights)
}

// forWhich says for which systems it needs its role, to somebody who has roles for some.
func forWhich(d *Description, who caller.Caller) string {
	switch {
	case who.Rights.Whole():
		return ""
	case d.System == Each:
		return " for the system of what it concerns"
	case d.System == "":
		return " for all systems"
	}
	return " for " + d.System
}
