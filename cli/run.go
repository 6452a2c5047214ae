package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/ownfile"
)

type runCmd struct {
	command.Settings
	Systems []string `arg:"" optional:"" name:"system" help:"Systems to run, of ${systems}. Default: the setting systems (TIDEMILL_SYSTEMS), or all that are configured."`
	Listen  string   `help:"Address to listen on. Default: 127.0.0.1:8484." placeholder:"ADDR"`
	Project []string `help:"A project and its ingest key; can be repeated. A NAME that is a UUID is the project's id." placeholder:"NAME=KEY" sep:"none"`
	NoAuth  bool     `help:"The API needs no token: every user and program on this machine may do everything. On loopback only; requests that came through a proxy are refused."`
	Log     string   `help:"Lowest level that is logged: trace, debug, info, warn, error." placeholder:"LEVEL"`
	kong.Plugins

	flags *runFlags // what Plugins are made of
}

// Help is shown by tidemill run --help.
func (c *runCmd) Help() string {
	return `With no configuration everything runs embedded: one SQLite file in ./tidemill-data.

Point an SDK at the address it prints, with the project's key as API key or write key:

  posthog-node              new PostHog(KEY, { host: 'http://127.0.0.1:8484' })
  @segment/analytics-node   new Analytics({ writeKey: KEY, host: 'http://127.0.0.1:8484' })

A system may have flags for its settings, like --redis-addr and --mqtt-broker of the bridge: tidemill run bridge --help lists them.

SIGTERM and Ctrl-C stop it in order: no event is lost. A second one stops it at once; that loses nothing either.`
}

func (c *runCmd) Run(ctx context.Context, e command.Env) error {
	if err := c.fix(); err != nil {
		return err
	}
	cfg, err := c.read(e)
	if _, usage := errors.AsType[command.UsageError](err); usage {
		return err
	}
	systems := e.Table.Configured(cfg)
	if err := c.flags.check(systems); err != nil {
		return err
	}
	err = errors.Join(err, e.Table.Check(cfg, systems))
	if c.NoAuth {
		err = errors.Join(err, cfg.CheckNoAuth())
	}
	l, level := cfg.LogOf(systems), &slog.LevelVar{}
	level.Set(l.Slog())
	if err != nil {
		return inLog(l, command.Logger(l, e, false), command.WrongConfig{Err: err})
	}
	log, closeLog, err := logTo(&cfg.LogFiles, l, e, level)
	if err != nil {
		return inLog(l, command.Logger(l, e, false), err)
	}
	return errors.Join(inLog(l, log, c.run(ctx, e, cfg, systems, &teller{e: e, log: log, level: level, json: l.Format == "json"})), closeLog())
}

// run runs the systems until ctx ends.
func (c *runCmd) run(ctx context.Context, e command.Env, cfg *config.Loaded, systems []string, tell *teller) (err error) {
	tell.starting(cfg, systems)
	for _, w := range command.Warnings(e, cfg) {
		// Logged at the start, for each setting that is allowed and hardly meant, as `tidemill config
		// check` shows them.
		// To do: correct the setting that `text` names.
		tell.log.Warn("this setting is probably a mistake", "text", w)
	}
	hangup, unhang := onHangup(tell.log)
	defer unhang()
	bounded, unbound := context.WithCancel(ctx)
	var memory sync.WaitGroup
	memory.Go(func() { boundMemory(bounded, e.Getenv, roomOf(e.Table, cfg, systems)) })
	defer memory.Wait()
	defer unbound()
	signal.Ignore(syscall.SIGPIPE) // whoever read our output may go; the events may not
	if c.NoAuth {
		// Logged at the start with --no-auth.
		// To do: start without it where others can log in on the machine.
		tell.log.Warn("the API needs no token (--no-auth): everyone on this machine may do everything")
	}
	if err := ownfile.Folder(cfg.Data); err != nil {
		return err
	}
	in, err := connect.Open(ctx, e.Table, cfg, connect.Options{Version: e.Version, Systems: systems, Log: tell.log, Level: tell.level, Load: func() (*config.Loaded, error) { return c.read(e) }, NoAuth: c.NoAuth})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	server, err := in.Listen()
	if err != nil {
		return err
	}
	url := "http://" + server.Addr()
	tell.listening(systems, in.Uses, url, c.console(ctx, cfg, url, in, tell))
	names, err := tell.projects(ctx, in, systems, strings.Join(append([]string{"run"}, c.Systems...), " "), url)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	tell.firstEvents(cfg, systems, names, url, c.NoAuth)
	hangup(func() { _, _ = in.ReloadBy(ctx, "SIGHUP") }) // the log has what came of it
	told := make(chan struct{})
	untell := context.AfterFunc(ctx, func() {
		defer close(told)
		tell.stopping(context.Cause(ctx))
	})
	err = in.Run(ctx, server, tell.ready)
	if !untell() {
		<-told
	}
	if err != nil {
		return err
	}
	return tell.stopped()
}

// fix finds the file, and makes its path one that stays right.
func (c *runCmd) fix() (err error) {
	if c.Config = c.File(); c.Config != "" {
		c.Config, err = filepath.Abs(c.Config)
	}
	return err
}

// read reads the configuration: file, environment and the flags of this run. With an error comes what
// could be read.
func (c *runCmd) read(e command.Env) (*config.Loaded, error) {
	flags := c.flags.given()
	if c.Listen != "" {
		flags["listen"] = c.Listen
	}
	if c.Log != "" {
		flags["log.level"] = c.Log
	}
	more, err := command.ProjectFlags(c.Project)
	if err != nil {
		return nil, err
	}
	if err := named(e.Table, c.Systems, flags); err != nil {
		return nil, err
	}
	cfg, err := c.Read(e, flags)
	cfg.Projects = append(cfg.Projects, more...)
	return cfg, err
}

// named puts the systems of the command line over those of environment and file. It refuses
// those that there are not.
func named(table system.Table, systems []string, flags map[string]string) error {
	for _, name := range systems {
		if err := table.Has(name); err != nil {
			return command.UsageError{Err: err}
		}
	}
	if len(systems) > 0 {
		flags["systems"] = strings.Join(systems, ",")
	}
	return nil
}

// console is where the console is and how somebody gets in; empty: it is switched off. On a terminal it
// is a link that lets in once, where this listens on this machine alone and nobody can log in yet: a link
// is a secret, which belongs in no file and no log.
func (c *runCmd) console(ctx context.Context, cfg *config.Loaded, url string, in *connect.Instance, tell *teller) string {
	switch {
	case !cfg.Console.Enabled:
		return ""
	case c.NoAuth:
		return url + "/console/"
	}
	if host, _, err := net.SplitHostPort(cfg.Listen); err == nil && config.Loopback(host) && tell.toSomebody() {
		if path, err := in.FirstLink(ctx); err == nil && path != "" { // whatever keeps it from being made, the instance runs
			return url + path + " (lets you in once, within 10 minutes; tidemill console link makes another)"
		}
	}
	return url + "/console/ (tidemill console link lets you in)"
}
