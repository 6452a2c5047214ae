package connect

import (
	"cmp"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/access/provider"
	"github.com/tidemill/tidemill/serve/caller"
)

// providers are those that people log in at.
func (i *Instance) providers() (all []access.Provider) {
	for _, p := range i.Config.Console.OIDC {
		secret := p.ClientSecret
		if p.SecretEnv != "" {
			secret, _ = i.Config.Secret(p.SecretEnv) // it was there when the settings were checked
		}
		scopes := p.Scopes
		if len(scopes) == 0 {
			scopes = []string{"profile", "email"}
		}
		roles := map[string]caller.Rights{}
		for group, text := range p.Roles {
			roles[group], _ = caller.ParseRights(text) // they are some: the settings were checked
		}
		all = append(all, access.Provider{Name: p.Name, Roles: roles, Options: provider.Options{Issuer: p.Issuer, ClientID: p.ClientID, Secret: secret, Scopes: scopes,
			Name: cmp.Or(p.NameClaim, "email"), Groups: cmp.Or(p.GroupsClaim, "groups")}})
	}
	return all
}
