package api

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of people: who comes in, and what they may do.
var (
	GetMe = operation.View[operation.None, Me]("getMe", "me",
		"Say who asks, and what they may do.").For(caller.Viewer).OfEach()
	SetMyPassword = operation.Act[MyPassword, Me]("setMyPassword", "me/password",
		"Change the password of the user who asks. Their other sessions end.").WithSecret().For(caller.Viewer).OfEach()
	ListMySessions = operation.List[operation.Short, Session]("listMySessions", "me/sessions",
		"List your own sessions.").For(caller.Viewer).OfEach()
	EndMySession = operation.Act[OneSession, Session]("endMySession", "me/sessions/{id}/end",
		"End one of your own sessions.").For(caller.Viewer).OfEach()

	ListUsers = operation.List[operation.Short, User]("listUsers", "users",
		"List the users.")
	GetUser = operation.View[OneUser, User]("getUser", "users/{name}",
		"Show one user.")
	AddUser = operation.Act[NewUser, User]("addUser", "users",
		"Add a user.").WithSecret().WithLogin()
	SetUserRole = operation.Editing(operation.Act[UserRole, User]("setUserRole", "users/{name}/role",
		"Give a user another role. Their sessions end. The last admin stays one.").WithLogin(), GetUser.Description)
	SetUserPassword = operation.Act[UserPassword, User]("setUserPassword", "users/{name}/password",
		"Give a user another password. Their sessions end.").WithSecret().WithLogin()
	RemoveUser = operation.Act[OneUser, User]("removeUser", "users/{name}/remove",
		"Remove a user. Their sessions end. The last admin stays.").WithLogin()

	ListTokens = operation.List[operation.Short, Token]("listTokens", "tokens",
		"List the tokens that were made for programs, without their secrets.")
	MakeToken = operation.Act[NewToken, MadeToken]("makeToken", "tokens",
		"Make a token for a program. The answer alone has its secret.").WithSecret().WithLogin()
	RevokeToken = operation.Act[OneToken, Token]("revokeToken", "tokens/{id}/revoke",
		"Revoke a token. Sessions that it began end.").WithLogin()

	ListSessions = operation.List[SessionFilter, Session]("listSessions", "sessions",
		"List the sessions of everybody.")
	EndSession = operation.Act[OneSession, Session]("endSession", "sessions/{id}/end",
		"End anybody's session.").WithLogin()
	MakeLink = operation.Act[operation.None, MadeLink]("makeLink", "console/link",
		"Make the secret of a link that lets in once, from this machine, within 10 minutes, for a session of 12 hours as admin.").WithSecret().WithLogin()
)

// Me is who asks.
type Me struct {
	Name     string        `json:"name"`
	Role     caller.Rights `json:"role"`     // viewer, operator:crm…
	Payloads bool          `json:"payloads"` // may see payloads, properties and headers, of systems that they are an operator of
	Via      string        `json:"via"`      // how they came in: key, token, password, link, local
	Session  string        `json:"session,omitempty"`
	Entered  *time.Time    `json:"entered_at,omitempty"` // when they logged in; left out: they show their token with each request
	May      []string      `json:"may"`                  // operations
}

// MyPassword is a new password of the caller.
type MyPassword struct {
	Body ChangedPassword `body:"application/json"`
}

// ChangedPassword is a password in place of another one.
type ChangedPassword struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// User is somebody with a name and a password.
type User struct{ UserShown }

// UserShown is what a user is shown as, in one, so that the names of functions of it are short.
type UserShown struct {
	Name string        `json:"name"`
	Role caller.Rights `json:"role"`
	By   string        `json:"added_by,omitempty"`
	Made time.Time     `json:"added_at"`
	ETag string        `json:"etag"` // of the role: what a change of it is compared with
}

// Version is the ETag.
func (u User) Version() string { return u.ETag }

// PageKey is when the user was added, and the name.
func (u User) PageKey() string { return keyOf(u.Made, u.Name) }

// NewUser is a user to be added.
type NewUser struct {
	Body UserToAdd `body:"application/json"`
}

// UserToAdd is a user with a password.
type UserToAdd struct {
	Name     string `json:"name"`
	Role     string `json:"role"` // viewer, operator, admin, or of single systems: viewer operator:crm
	Password string `json:"password"`
}

// OneUser names a user.
type OneUser struct {
	User string `path:"name" arg:"" name:"name" help:"The user's name."`
}

// UserRole is another role of a user.
type UserRole struct {
	OneUser
	Seen
	Role string `query:"role" arg:"" help:"viewer, operator or admin; of single systems as 'viewer operator:crm'."`
}

// UserPassword is another password of a user.
type UserPassword struct {
	OneUser
	Body NewPassword `body:"application/json" kong:"-"`
}

// NewPassword is a password.
type NewPassword struct {
	Password string `json:"password"`
}

// Token is what a program shows with each request.
type Token struct{ TokenShown }

// TokenShown is what a token is shown as, in one, so that the names of functions of it are short.
type TokenShown struct {
	ID    string        `json:"id"`
	Name  string        `json:"name"`
	Role  caller.Rights `json:"role"`
	By    string        `json:"made_by,omitempty"`
	Made  time.Time     `json:"made_at"`
	Used  *time.Time    `json:"used_at,omitempty"` // about
	Until *time.Time    `json:"ends_at,omitempty"` // left out: never
}

// PageKey is when the token was made, and its name.
func (t Token) PageKey() string { return keyOf(t.Made, t.Name) }

// NewToken is a token to be made.
type NewToken struct {
	Name string  `query:"name" arg:"" help:"A name for it: ci, grafana."`
	Role string  `query:"role" default:"" help:"viewer, operator or admin; of single systems as 'viewer operator:crm'. Default: viewer." placeholder:"ROLE"`
	Days *string `query:"days" help:"Days until it ends, 1 to 3650, or never. Default: 90." placeholder:"N"`
}

// MadeToken is a token with its secret.
type MadeToken struct {
	Token
	Secret string `json:"secret"` // nobody can see it later
}

// OneToken names a token.
type OneToken struct {
	ID string `path:"id" arg:"" help:"Its id, as tidemill token list shows it."`
}

// Session is one of somebody who logged in.
type Session struct{ SessionShown }

// SessionShown is what a session is shown as, in one, so that the names of functions of it are short.
type SessionShown struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Role    caller.Rights `json:"role"`
	Via     string        `json:"via"`
	From    string        `json:"from"`
	Browser string        `json:"browser,omitempty"` // as it calls itself
	Entered time.Time     `json:"entered_at"`
	Used    time.Time     `json:"used_at"` // about
	Until   time.Time     `json:"ends_at"` // unless it is used again
	This    bool          `json:"this"`    // it is the one that asks
}

// PageKey is when the session began, and its id.
func (s Session) PageKey() string { return keyOf(s.Entered, s.ID) }

// keyOf is a key that is in the order of times.
func keyOf(t time.Time, name string) string {
	return t.UTC().Format("2006-01-02T15:04:05.000000000") + name
}

// SessionFilter chooses sessions.
type SessionFilter struct {
	Name string `query:"name" arg:"" optional:"" help:"Only sessions of this name: ada, token:ci, local."`
	operation.Short
}

// OneSession names a session.
type OneSession struct {
	ID string `path:"id" arg:"" help:"Its id, as tidemill sessions shows it."`
}

// MadeLink is a link that lets in once.
type MadeLink struct {
	Path  string    `json:"path"`    // with the secret behind #, which no browser sends to a server
	Until time.Time `json:"ends_at"` // when it lets in no more
}
