// Package caller is who asks the API, and what they may do.
package caller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Role is what somebody may do. Each may do what the one before it may.
type Role uint8

// The roles.
const (
	Nobody   Role = iota
	Viewer        // sees figures and lists, and searches by id
	Operator      // sees payloads where that is allowed, moves what waits or failed, and edits it
	Admin         // everything
)

var roles = []string{"nobody", "viewer", "operator", "admin"}

// String is its name.
func (r Role) String() string { return roles[r] }

// MarshalText is its name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a name. Nobody is no role that can be given.
func (r *Role) UnmarshalText(b []byte) error {
	i := slices.Index(roles, string(b))
	if i <= 0 {
		return fmt.Errorf("%q is no role: viewer, operator or admin", b)
	}
	*r = Role(i)
	return nil
}

// May says whether a role may do what another one is needed for.
func (r Role) May(needed Role) bool { return r >= needed }

// Caller is who makes a request.
type Caller struct {
	Name     string     // ada; key:admin, of the API's own token; token:ci; local, on this machine without a token
	Rights   Rights     // the zero value may do nothing
	Payloads bool       // may see payloads, properties and headers of the systems that they are an operator of
	Via      string     // how they came in: key, token, password, oidc, link, local
	From     netip.Addr // the address that the request came from; zero: this process
	Session  string     // the id of their session, which is no secret; empty: none
	Entered  time.Time  // when they last proved who they are; zero: they show their token with each request
}

// Fresh says whether somebody has proved who they are within a time.
func (c Caller) Fresh(now time.Time, within time.Duration) bool {
	return c.Entered.IsZero() || now.Sub(c.Entered) <= within
}

// MayRead says whether they may see payloads of a system; "": of all.
func (c Caller) MayRead(system string) bool { return c.Payloads && c.Rights.May(Operator, system) }

// Key is the caller who has the API's own token, or needs none on this machine.
func Key(name, via string, from netip.Addr) Caller {
	return Caller{Name: name, Rights: All(Admin), Payloads: true, Via: via, From: from}
}

type key struct{}

// With is a context whose requests are those of a caller.
func With(ctx context.Context, c Caller) context.Context { return context.WithValue(ctx, key{}, c) }

// From is the caller of a context; nobody where it has none.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(key{}).(Caller)
	return c
}
