// Package crmcli has the commands of CRM.
package crmcli

import (
	"fmt"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/systems/crm/crmconfig"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// Commands are those of the command line.
func Commands() []system.Command {
	return []system.Command{
		{Name: "crm", Help: "Send business events, and see the state of CRM.", Do: new(crmCmd)},
		{Name: "handler", Help: "See, add, change and remove the handlers of CRM.", Do: new(handlerCmd)},
		{Name: "replay", Help: "Run CRM's handlers again for events of the sync log.", Do: new(replayCmd)},
		{Name: "synclog", Help: "See what became of the events of CRM, and why.", Do: new(syncLogCmd)},
	}
}

// First sends a first event and finds it again.
func First(t *system.Trial) []string {
	tenant := t.Project()
	if all := crmconfig.Of(t.Config).Tenants; len(all) > 0 {
		tenant = all[0].ID
	}
	if !event.ValidTenant(tenant) {
		tenant = "default"
	}
	return []string{
		t.Pipe(fmt.Sprintf(`{"id": "first", "type": "member.created", "tenantId": %q, "identity": {"email": "ann@example.com"}, "occurredAt": "2026-01-15T10:00:00Z", "payload": {"city": "Berlin"}}`, tenant), "crm send"),
		t.Run("synclog show %s first", tenant)}
}
