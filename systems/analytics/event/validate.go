package event

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Reasons of refusals and warnings, as they are counted and stored.
const (
	Invalid        = "invalid_event"
	Illegal        = "illegal_distinct_id"
	UnknownProject = "unknown_project"
	IllegalMerge   = "cannot_merge_with_illegal_distinct_id"
)

const (
	maxName     = 255 // characters of an event's name
	maxDistinct = 400 // characters of a distinct id, in any format: the limit of the persons' tables
)

// Validate checks whether an event may be stored: it needs a project, a name of 1 to 255
// characters and a distinct id of at most 400 that stands for a person. The error is a Refusal.
func Validate(e *Event) error {
	if e.Project == uuid.Nil {
		return invalid("project_id", "missing; the UUID of a project is required")
	}
	return e.check("event_name", "distinct_id")
}

// check validates what the sender is responsible for, and names the fields as the sender does.
func (e *Event) check(name, id string) error {
	switch {
	case e.Name == "":
		return invalid(name, "missing or empty; a text of 1 to %d characters is required", maxName)
	case longer(e.Name, maxName):
		return invalid(name, "%d characters long; 1 to %d are allowed", utf8.RuneCountInString(e.Name), maxName)
	case e.DistinctID == "":
		return invalid(id, "missing or empty; a text of 1 to %d characters is required", maxDistinct)
	case longer(e.DistinctID, maxDistinct):
		return invalid(id, "%d characters long; 1 to %d are allowed", utf8.RuneCountInString(e.DistinctID), maxDistinct)
	case IllegalDistinctID(e.DistinctID):
		return Refuse(Illegal, "%s: %.60q stands for nobody; send an id of one person, not a blank or a placeholder such as null, undefined, anonymous, guest, true or 0", id, e.DistinctID)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return Refuse(Invalid, field+": "+format, args...)
}

// longer reports whether s has more than n characters.
func longer(s string, n int) bool { return len(s) > n && utf8.RuneCountInString(s) > n }

// blank reports whether a character is white space, in JavaScript too.
func blank(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' }

// IllegalDistinctID reports whether s is what programs send for an unknown person: blank, or a
// listed placeholder in any case, also in quotes. One such id would make many people one
// person.
func IllegalDistinctID(s string) bool {
	for {
		s = strings.TrimFunc(s, blank)
		if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '"' && s[0] != '\'' {
			break
		}
		s = s[1 : len(s)-1]
	}
	switch len(s) {
	case 0:
		return true
	case 1:
		return s == "0"
	case 3:
		return strings.EqualFold(s, "nil") || strings.EqualFold(s, "nan")
	case 4:
		return strings.EqualFold(s, "null") || strings.EqualFold(s, "none") || strings.EqualFold(s, "true")
	case 5:
		return strings.EqualFold(s, "false") || strings.EqualFold(s, "guest")
	case 9:
		return strings.EqualFold(s, "anonymous") || strings.EqualFold(s, "undefined")
	case 15:
		return strings.EqualFold(s, "[object Object]")
	}
	return false
}
