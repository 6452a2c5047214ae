package connect

import (
	"context"
	"net/netip"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	state "github.com/tidemill/tidemill/state/access"
)

// FirstLink makes a link that lets into the console once, from this machine, within 10 minutes, where
// nobody could log in otherwise but by a token: there is no user and no provider. It returns the path of
// it with its secret, for who can show that to the one who started the instance; empty: there is none.
// The audit trail has that one was made.
func (i *Instance) FirstLink(ctx context.Context) (path string, err error) {
	c := i.InForce().Console
	if i.people == nil || !c.Enabled || len(c.OIDC) > 0 {
		return "", nil
	}
	users, err := i.people.List(ctx, state.User, "")
	if err != nil || len(users) > 0 {
		return "", err
	}
	l, err := api.MakeLink.Call(caller.With(ctx, caller.Key("start", "start", netip.Addr{})), operation.Inside(i.inside), &operation.None{})
	return l.Path, err
}
