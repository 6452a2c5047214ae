// Command tidemill takes events in, decides what each means and delivers it, and accounts
// for every one. `tidemill run` starts it; the other commands ask what runs.
package main

import (
	"github.com/tidemill/tidemill/cli"
	"github.com/tidemill/tidemill/systems"
)

// version is set when a release is built.
var version = "dev"

func main() { cli.Main(version, systems.All()) }
