package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// crmProfileOf is a profile in the words of the API.
type crmProfileOf struct {
	ID         uuid.UUID                  `json:"id"`
	Tenant     string                     `json:"tenant"`
	Identities []crmIdentity              `json:"identities"`
	Attributes map[string]json.RawMessage `json:"attributes"` // as received
	Created    time.Time                  `json:"created_at"`
	Updated    time.Time                  `json:"updated_at"` // when attributes changed last
}

// crmIdentity is one of a profile's identities, as it is kept.
type crmIdentity struct {
	Kind  string `json:"kind"` // externalId, email, phone
	Value string `json:"value"`
}

// crmProfile shows the profile that has an identity: ?tenant= and one of ?externalId=, ?email= and
// ?phone=, in any form that the same identity has in events.
func (a *API) crmProfile(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	tenant := q.Get("tenant")
	if !event.ValidTenant(tenant) {
		return refused(http.StatusBadRequest, "tenant=%.120q: no tenant is called so", tenant)
	}
	var by []profile.Identity
	for kind := profile.External; kind <= profile.Phone; kind++ {
		if value := q.Get(kind.String()); value != "" {
			by = append(by, profile.Identity{Kind: kind, Value: value})
		}
	}
	if len(by) != 1 {
		return refused(http.StatusBadRequest, "say whose profile: one of externalId, email and phone")
	}
	p, err := a.CRM.Profile(r.Context(), tenant, by[0])
	if err != nil {
		return answerable(err)
	}
	out := crmProfileOf{ID: p.ID, Tenant: p.Tenant, Identities: []crmIdentity{}, Attributes: map[string]json.RawMessage{}, Created: p.Created, Updated: p.Updated}
	for _, i := range p.Identities {
		out.Identities = append(out.Identities, crmIdentity{i.Kind.String(), i.Value})
	}
	for name, value := range p.Attributes {
		out.Attributes[name] = value
	}
	write(w, http.StatusOK, out)
	return nil
}
