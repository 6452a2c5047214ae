// Package windowscli has the commands of windows.
package windowscli

import (
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/systems/windows/windowsconfig"
)

// Commands are those of the command line.
func Commands() []system.Command {
	return []system.Command{
		{Name: "window", Help: "See where windows of records are; close, replay and fill them.", Do: new(windowCmd)},
		{Name: "search", Help: "Search the records that windows have delivered.", Do: new(searchCmd)},
	}
}

// First sends a first event and finds it again.
func First(t *system.Trial) []string {
	const batch = "20260115100000"
	lines := []string{
		t.Pipe(`{"globalEventId": 1, "day": 20260115, "eventCode": "141", "actor1Name": "BERLIN"}`, "window send --batch %s --kind event", batch),
		t.Run("window close %s", batch)}
	if windowsconfig.Of(t.Config).Search.Enabled {
		return append(lines, t.Run("search berlin"))
	}
	return append(lines, t.Run("window list"))
}
