// Command journal is tidemill with a system of its own beside the others: notes that come over HTTP
// are written to a file, one a line. All that a system can bring is here, each in a file of its name.
//
//	go run ./examples/journal run journal
//	go run ./examples/journal journal add "the kettle is on"
//	go run ./examples/journal journal list
package main

import (
	"github.com/tidemill/tidemill/cli"
	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems"
)

func main() { cli.Main(command.Build{Version: "dev"}, append(systems.All(), journal)) }
