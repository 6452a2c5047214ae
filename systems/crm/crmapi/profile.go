package crmapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// crmProfile shows the profile that has an identity.
func (a *API) crmProfile(ctx context.Context, q *OneProfile) (out Profile, err error) {
	if !event.ValidTenant(q.Tenant) {
		return out, operation.Refuse(http.StatusBadRequest, "tenant=%.120q: no tenant is called so", q.Tenant)
	}
	var by []profile.Identity
	for kind, value := range map[profile.Kind]string{profile.External: q.External, profile.Email: q.Email, profile.Phone: q.Phone} {
		if value != "" {
			by = append(by, profile.Identity{Kind: kind, Value: value})
		}
	}
	if len(by) != 1 {
		return out, operation.Refuse(http.StatusBadRequest, "say whose profile: one of externalId, email and phone")
	}
	p, err := a.CRM.Profile(ctx, q.Tenant, by[0])
	if err != nil {
		return out, answer.Answerable(err)
	}
	out = Profile{ID: p.ID, Tenant: p.Tenant, Identities: []Identity{}, Attributes: map[string]json.RawMessage{}, Created: p.Created, Updated: p.Updated}
	for _, i := range p.Identities {
		out.Identities = append(out.Identities, Identity{Kind: i.Kind.String(), Value: i.Value})
	}
	for name, value := range p.Attributes {
		out.Attributes[name] = value
	}
	return out, nil
}
