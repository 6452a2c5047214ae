// Package view is the role that keeps the views of the console that people save: a name for an address,
// of one person alone or shared with all.
//
// Backend: tableaccess, in any table, beside the people who save them. Promises are cases of viewtest.
package view

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What is kept at most.
const (
	Most       = 100     // views of one owner
	MostShared = 500     // views that are shared, of all owners
	MostName   = 80      // characters of a name
	MostOf     = 2 << 10 // bytes of an address
	MostOwner  = 256     // bytes of the name of an owner
)

// Prefix is what every address begins with, whatever a proxy has before it.
const Prefix = "/console/"

// View is a name for an address.
type View struct {
	ID      string // made by the store; empty: it was not kept yet
	Name    string // the only one of its owner's that is called so
	Address string // a page of the console with its query, see CheckAddress
	Owner   string // who saved it: ada, token:ci, key:admin, local; 1 to MostOwner bytes
	Shared  bool   // everybody sees it, and not its owner alone
	Made    time.Time
}

// Errors that a caller can act on.
var (
	ErrUnknown    = errors.New("there is no such view")
	ErrTaken      = errors.New("there is a view of that name already: choose another name, or change that one")
	ErrFull       = fmt.Errorf("there are %d views, and no more are kept of one person: remove one", Most)
	ErrFullShared = fmt.Errorf("%d views are shared, and no more may be: keep it to yourself, or have one removed", MostShared)
)

// Store is the whole role. A view that breaks a rule is refused and not kept; Check says which rule.
type Store interface {
	// Add keeps a new view and returns it with its id. ErrTaken: its owner has one of that name. ErrFull,
	// ErrFullShared: there are too many.
	Add(ctx context.Context, v View) (View, error)
	// Get returns a view; ErrUnknown if there is none.
	Get(ctx context.Context, id string) (View, error)
	// List returns the views of an owner, and those that others share. Most+MostShared at most.
	List(ctx context.Context, owner string) ([]View, error)
	// Change changes a view and returns it; its id, its owner and when it was made stay. An error of do is
	// returned, and nothing is changed; do may be called again. Others are those of Add, and ErrUnknown.
	Change(ctx context.Context, id string, do func(*View) error) (View, error)
	// Remove removes a view and returns it, unless may has an error, which is returned then; may may be called
	// again. ErrUnknown: there is none.
	Remove(ctx context.Context, id string, may func(*View) error) (View, error)
}

// once are the parameters that an address does not have: they are of one visit, and not of what a page shows.
var once = []string{"back", "check", "chosen", "cursor", "done", "etag", "key", "preview", "scan"}

// OnceParameters are the parameters of a page that no saved address has.
func OnceParameters() []string { return slices.Clone(once) }

// Check says what is wrong with a view.
func Check(v *View) error {
	if n := len(v.Owner); n == 0 || n > MostOwner {
		return fmt.Errorf("an owner whose name has %d bytes: want 1 to %d", n, MostOwner)
	}
	return errors.Join(CheckName(v.Name), CheckAddress(v.Address))
}

// CheckName says what is wrong with a name.
func CheckName(name string) error {
	switch n := utf8.RuneCountInString(name); {
	case !utf8.ValidString(name):
		return errors.New("the name is no text in UTF-8")
	case n == 0 || n > MostName:
		return fmt.Errorf("the name has %d characters: want 1 to %d", n, MostName)
	case strings.TrimSpace(name) != name:
		return errors.New("the name begins or ends with a space")
	case strings.ContainsFunc(name, func(c rune) bool { return unicode.Is(unicode.C, c) || unicode.In(c, unicode.Zl, unicode.Zp) }):
		return errors.New("the name has a control character, or one that nobody sees")
	}
	return nil
}

// CheckAddress says what is wrong with an address: it is a path below Prefix, with its query or without one, and
// leads nowhere else, however a browser reads it.
func CheckAddress(address string) error {
	wrong := func(why string) error {
		return fmt.Errorf("the address %s: want that of a page, as /console/dead?state=held, without https:// and the name of a host, and of at most %d bytes", why, MostOf)
	}
	if len(address) > MostOf {
		return wrong(fmt.Sprintf("has %d bytes", len(address)))
	}
	if !strings.HasPrefix(address, Prefix) {
		return wrong("does not begin with " + Prefix)
	}
	for _, c := range []byte(address) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return wrong("has a character that stands in no address; write it as %20")
		}
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" {
		return wrong("is none")
	}
	if u.Fragment != "" || strings.Contains(address, "#") {
		return wrong("has a part behind #")
	}
	if strings.Contains(u.EscapedPath(), "//") || strings.Contains(u.Path, "\\") {
		return wrong("has // or a backslash")
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == "." || part == ".." {
			return wrong("has a part of dots alone")
		}
	}
	if u.Path == Prefix+"login" || strings.HasPrefix(u.Path, Prefix+"login/") {
		return wrong("is one that lets in or out")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wrong("has a query that is none")
	}
	for _, name := range once {
		if q.Has(name) {
			return wrong("has " + name + "=, which is of one visit alone")
		}
	}
	return nil
}
