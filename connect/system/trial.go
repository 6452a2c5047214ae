package system

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/config"
)

// Command is one of the command line that is about a system.
type Command struct {
	Name, Help string

	// Do is a pointer to a struct for kong: flags and arguments, or further commands. Its method Run
	// takes a context and a command.Env.
	Do any
}

// Trial makes commands that send a system its first event and find it again. They work as they are
// printed, from another terminal.
type Trial struct {
	Config   *config.Loaded
	Plain    *config.Loaded // what a command finds without a flag or variable; nil: nothing that is right
	Projects []string       // names of those that there are
	Program  string         // how this program is called
	At       string         // flags that find the instance
}

// Run is a command of this program.
func (t *Trial) Run(format string, args ...any) string {
	return t.Program + " " + fmt.Sprintf(format, args...) + t.At
}

// Pipe is a command of this program that reads an event.
func (t *Trial) Pipe(event, format string, args ...any) string {
	return "echo " + ShellWord(event) + " | " + t.Run(format, args...)
}

// Project is one that events may be of.
func (t *Trial) Project() string {
	for _, p := range t.Config.Projects {
		if slices.Contains(t.Projects, p.Name) || len(t.Projects) == 0 {
			return p.Name
		}
	}
	if len(t.Projects) > 0 {
		return t.Projects[0]
	}
	return "default"
}

// ShellWord is a text as a shell takes it.
func ShellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@%+,=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
