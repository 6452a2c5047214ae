package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/connect/system"
)

type versionCmd struct {
	JSON bool `help:"Print JSON."`
}

// versionView is what this binary is, and what is built in.
type versionView struct {
	command.Build

	Go      string   `json:"go"`
	OS      string   `json:"os"`
	Arch    string   `json:"arch"`
	Systems []string `json:"systems"`
	Servers []string `json:"servers"`
}

func (c *versionCmd) Run(e command.Env) error {
	v := versionView{Build: e.Build, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Systems: e.Table.Names(), Servers: system.Servers()}
	if c.JSON {
		return command.PrintJSON(e.Out, v)
	}
	_, err := fmt.Fprintf(e.Out, "tidemill %s\n  commit   %s\n  date     %s\n  go       %s %s/%s\n  systems  %s\n  servers  %s\n", v.Version, cmp.Or(v.Commit, "unknown"), cmp.Or(v.Date, "unknown"),
		v.Go, v.OS, v.Arch, strings.Join(v.Systems, ", "), cmp.Or(strings.Join(v.Servers, ", "), "none"))
	return err
}
