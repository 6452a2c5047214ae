package command

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// Build is what a binary was made of.
type Build struct {
	Version string `json:"version"`          // "dev" unless it is a release, or installed by its version
	Commit  string `json:"commit,omitempty"` // empty: unknown
	Date    string `json:"date,omitempty"`   // of the commit, RFC 3339; empty: unknown
}

// Or completes what is not known with what Go noted in the binary.
func (b Build) Or(noted *debug.BuildInfo) Build {
	if v := noted.Main.Version; b.Version == "dev" && v != "" && v != "(devel)" {
		b.Version = strings.TrimPrefix(v, "v")
	}
	for _, s := range noted.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = cmp.Or(b.Commit, s.Value)
		case "vcs.time":
			b.Date = cmp.Or(b.Date, s.Value)
		}
	}
	return b
}
