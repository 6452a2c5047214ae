package crmcli

import (
	"context"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
)

type crmSendCmd struct {
	command.Remote
	command.EventsIn
}

// Help is shown by tidemill crm send --help.
func (c *crmSendCmd) Help() string {
	return `An event has an id, a type, a tenant, an identity and a time; a payload is optional:

  {"id": "evt-1", "type": "member.created", "tenantId": "club", "identity": {"email": "ann@example.com"}, "occurredAt": "2026-01-15T10:00:00Z", "payload": {"firstName": "Ann"}}

  tidemill crm send events.ndjson more.json
  producer | tidemill crm send

Events counted as accepted are durable. The same events can be sent again without harm: known ones are duplicates and change nothing. A rejected event does not stop the others; the exit status is then 1.`
}

func (c *crmSendCmd) Run(ctx context.Context, e command.Env) error {
	return c.Send(ctx, e, &c.Remote, crmapi.SendCRM)
}
