// Command tidemill takes events in, decides what each means and delivers it, and accounts
// for every one. `tidemill run` starts it; the other commands ask what runs.
package main

import (
	"github.com/tidemill/tidemill/cli"
	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems"
)

// Set when a release is built.
var (
	version = "dev"
	commit  = ""
	date    = ""
)

func main() {
	cli.Main(command.Build{Version: version, Commit: commit, Date: date}, systems.All())
}
