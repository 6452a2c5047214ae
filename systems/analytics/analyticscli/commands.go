// Package analyticscli has the commands of analytics.
package analyticscli

import (
	"github.com/tidemill/tidemill/connect/system"
)

// Commands are those of the command line.
func Commands() []system.Command {
	return []system.Command{
		{Name: "send", Help: "Send events from a file or from standard input.", Do: new(sendCmd)},
		{Name: "events", Help: "List events, each under the person it belongs to.", Do: new(eventsCmd)},
		{Name: "stored", Help: "Show all that the warehouse has of one event, by its id.", Do: new(storedCmd)},
		{Name: "person", Help: "Show who is who.", Do: new(personCmd)},
		{Name: "warnings", Help: "List refused events and merges, for the project's owner.", Do: new(warningsCmd)},
	}
}

// First sends a first event and finds it again.
func First(t *system.Trial) []string {
	project := ""
	if len(t.Projects) > 1 {
		project = " --project " + system.ShellWord(t.Project())
	}
	return []string{
		t.Pipe(`{"event": "signed_up", "distinct_id": "user-1", "properties": {"plan": "free"}}`, "send%s", project),
		t.Run("events%s", project)}
}
