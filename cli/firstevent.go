package cli

import (
	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
)

// firstEvents shows for every system that runs how to send it an event and how to find that
// again, in commands that work as they are printed from another terminal.
func (t *teller) firstEvents(cfg *config.Loaded, systems, projects []string, url string, noAuth bool) {
	if t.json {
		return
	}
	f := system.Trial{Config: cfg, Projects: projects, Program: t.e.Program}
	// What a command finds without a word: the same file, but not the flags and variables of
	// this process.
	plain, err := (&command.Settings{}).Read(command.Env{Table: t.e.Table, Getenv: func(string) string { return "" }}, nil)
	if err != nil || command.Listener(plain) != url {
		f.At = " --server " + url
	}
	if cfg.Admin.Key.IsZero() && !noAuth && (err != nil || plain.Data != cfg.Data) {
		f.At += " --data " + system.ShellWord(cfg.Data) // where its token is
	}
	if err == nil {
		f.Plain = plain
	}
	t.say("\nSend a first event, from another terminal:\n\n")
	if !cfg.Admin.Key.IsZero() && (f.At != "" || !plain.Admin.Key.Equal(cfg.Admin.Key)) {
		t.say("  (with the API's token in the environment, TIDEMILL_TOKEN)\n")
	}
	for _, name := range systems {
		for _, s := range t.e.Table.Of([]string{name}) {
			if s.First == nil {
				continue
			}
			for _, line := range s.First(&f) {
				t.say("  %-11s %s\n", name, line)
				name = ""
			}
		}
	}
	t.say("\n")
}
