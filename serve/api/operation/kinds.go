package operation

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// ProblemKind is a kind of problem. The type of a problem is its address.
type ProblemKind struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"` // of HTTP
	Text   string `json:"text"`   // what it means, and what to do
}

// Name is the last part of its address.
func (k ProblemKind) Name() string { return strings.TrimPrefix(k.Type, problems) }

// problems is what the types of problems begin with.
const problems = Prefix + "problems/"

// NoKind is the type of a problem whose status tells all that there is to it: of none of the API's.
const NoKind = "about:blank"

// LoginAgain is the type of the problem that a login is too old for an operation.
const LoginAgain = problems + "login-again"

// ProblemKinds are all kinds, in the order of their status.
var ProblemKinds = []ProblemKind{
	kind(http.StatusBadRequest, "not-understood", "The request is not one that the operation has: a parameter, a field or a value is unknown or has another form, a body is missing. errors says which. Change the request; the same one is refused again."),
	kind(http.StatusUnauthorized, "not-logged-in", "Nobody is logged in, or the token is none, or its time is over. Send a token as Authorization: Bearer …, or log in to the console."),
	kind(http.StatusForbidden, "not-allowed", "Who asks has no role that this needs, or the request comes from where it must not. An admin can give the role."),
	{LoginAgain, "Log in again", http.StatusForbidden, "This needs a login that is not older than 15 minutes: log in again, and repeat it. Programs that show a token with each request are not asked."},
	kind(http.StatusNotFound, "not-found", "There is no such thing, or no such address; or it is one that the caller may not know of; or the instance does not have what the operation is of."),
	kind(http.StatusMethodNotAllowed, "no-such-method", "The address has other methods: the header Allow says which."),
	kind(http.StatusRequestTimeout, "too-slow", "The body came too slowly, and was read no further. Send it again."),
	kind(http.StatusConflict, "conflict", "What is there does not allow it now: it is in another state, somebody works on it, or another request with the same key is worked on. Look what is there; with retry_after, ask again."),
	kind(http.StatusPreconditionFailed, "changed-meanwhile", "What was to be changed is another than what was read: somebody else was faster. Nothing was changed. now has what is there, where that is not large; read it, and send the change with its ETag."),
	kind(http.StatusRequestEntityTooLarge, "too-large", "The body is larger than what the operation takes. Send less at a time."),
	kind(http.StatusUnsupportedMediaType, "other-form", "The body is of a type that the operation does not read."),
	kind(http.StatusUnprocessableEntity, "senseless", "The request was understood, and what it asks for cannot be done: it contradicts itself, or what it names is not fit for it."),
	kind(http.StatusPreconditionRequired, "not-read", "The operation edits what somebody has read, and the request does not say what that was. Read it, and send its ETag in the header If-Match; If-Match: * changes whatever is there."),
	kind(http.StatusTooManyRequests, "too-many", "There were too many requests, or too many wrong tokens or passwords. Ask again after retry_after seconds."),
	kind(http.StatusInternalServerError, "failed", "Something failed that is not the caller's fault. The log has it under the id of the request, which instance is."),
	kind(http.StatusServiceUnavailable, "not-now", "A database is away or busy, or the instance is ending. Ask again after retry_after seconds."),
	kind(http.StatusGatewayTimeout, "took-too-long", "It took longer than the operation may. Ask for less, or again later."),
	kind(http.StatusInsufficientStorage, "full", "There is no room for it. Make room, and ask again."),
}

func kind(status int, name, text string) ProblemKind {
	return ProblemKind{problems + name, http.StatusText(status), status, text}
}

// typeOf is the type of problems that have nothing but their status.
func typeOf(status int) string {
	i := slices.IndexFunc(ProblemKinds, func(k ProblemKind) bool { return k.Status == status && k.Type != LoginAgain })
	if i < 0 {
		return NoKind
	}
	return ProblemKinds[i].Type
}

// KindOf is the kind of a name; false: there is none.
func KindOf(name string) (ProblemKind, bool) {
	i := slices.IndexFunc(ProblemKinds, func(k ProblemKind) bool { return k.Name() == name })
	if i < 0 {
		return ProblemKind{}, false
	}
	return ProblemKinds[i], true
}

// ForBrowser says whether a request would rather have an answer for people than one for programs: its
// Accept names HTML, and no JSON that it likes as much.
func ForBrowser(r *http.Request) bool {
	return liked(r, func(name string) bool { return name == "text/html" }) >
		liked(r, func(name string) bool { return strings.HasSuffix(name, "json") || name == LinesType })
}

// forLines says whether a request would rather have a listing in lines than as an object: its Accept names
// their type, and not JSON as much.
func forLines(r *http.Request) bool {
	return liked(r, func(name string) bool { return name == LinesType }) > liked(r, func(name string) bool { return name == "application/json" })
}

// liked is how much the Accept of a request likes the best of some types that it names.
func liked(r *http.Request, is func(name string) bool) (most float64) {
	for _, list := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(list, ",") {
			if name, q := accepted(part); is(name) {
				most = max(most, q)
			}
		}
	}
	return most
}

// accepted is a type of an Accept, and how much it is liked.
func accepted(part string) (name string, q float64) {
	name, params, _ := strings.Cut(part, ";")
	for p := range strings.SplitSeq(params, ";") {
		if text, is := strings.CutPrefix(strings.TrimSpace(p), "q="); is {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return "", 0
			}
			return strings.ToLower(strings.TrimSpace(name)), n
		}
	}
	return strings.ToLower(strings.TrimSpace(name)), 1
}
