// Package deliverycli has the commands of delivery.
package deliverycli

import (
	"fmt"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
)

// Commands are those of the command line.
func Commands() []system.Command {
	return []system.Command{
		{Name: "event", Help: "Send events to partners, and explain what became of one.", Do: new(eventCmd)},
		{Name: "partner", Help: "See the state of partners; add, test, change and remove them.", Do: new(partnerCmd)},
		{Name: "site", Help: "See, add, change and remove the sites of delivery.", Do: new(siteCmd)},
	}
}

// First sends a first event and finds it again.
func First(t *system.Trial) []string {
	site := t.Project()
	if all := deliveryconfig.Of(t.Config).Sites; len(all) > 0 {
		site = all[0].ID
	}
	const id = "5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f0a01"
	return []string{
		t.Pipe(fmt.Sprintf(`{"eventType": "page_view", "timestamp": "2026-01-15T10:00:00Z", "siteId": %q, "eventId": %q, "context": {"page": {"url": "https://shop.example/"}}}`, site, id), "event send"),
		t.Run("event show %s", id)}
}
