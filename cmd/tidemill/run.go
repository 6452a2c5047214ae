package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/state/project"
)

type runCmd struct {
	settings
	Systems []string `arg:"" optional:"" name:"system" help:"Systems to run, of ${systems}. Default: all that are configured."`
	Listen  string   `help:"Address to listen on. Default: 127.0.0.1:8484." placeholder:"ADDR"`
	Project []string `help:"A project and its ingest key; may be given again. A NAME that is a UUID is the project's id." placeholder:"NAME=KEY" sep:"none"`
	Log     string   `help:"Least level that is logged: debug, info, warn, error." placeholder:"LEVEL"`
}

// Help is shown by tidemill run --help.
func (c *runCmd) Help() string {
	return `With no configuration everything runs embedded: one SQLite file in ./tidemill-data.

Point an SDK at the address it prints, with the project's key as API key or write key:

  posthog-node              new PostHog(KEY, { host: 'http://127.0.0.1:8484' })
  @segment/analytics-node   new Analytics({ writeKey: KEY, host: 'http://127.0.0.1:8484' })

SIGTERM and Ctrl-C stop it in order: no event is lost. A second one ends it at once, which loses nothing either.`
}

func (c *runCmd) Run(ctx context.Context, e env) (err error) {
	flags := map[string]string{}
	if c.Listen != "" {
		flags["listen"] = c.Listen
	}
	if c.Log != "" {
		flags["log.level"] = c.Log
	}
	cfg, err := c.load(e, flags)
	if err != nil {
		return err
	}
	more, err := projectFlags(c.Project)
	if err != nil {
		return err
	}
	for _, p := range more {
		if err := project.CheckKey(p.Key.Reveal()); err != nil {
			return fmt.Errorf("--project %s: %w", p.Name, err)
		}
	}
	cfg.Projects = append(cfg.Projects, more...)
	log := logger(cfg, e)
	in, err := connect.Open(ctx, cfg, connect.Options{Version: version, Systems: c.Systems, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	server, err := serve.Listen(cfg.Listen, in.Handler, serve.Limits{Connections: cfg.HTTP.Connections, Body: cfg.HTTP.BodyTimeout}, log)
	if err != nil {
		return err
	}
	return in.Run(ctx, server, func() { greet(e, cfg, in, "http://"+server.Addr()) })
}

// greet says where it listens and what it uses.
func greet(e env, cfg *config.Loaded, in *connect.Instance, url string) {
	var b strings.Builder
	fmt.Fprintf(&b, "tidemill %s (%s)\n", version, runtime.Version())
	fmt.Fprintf(&b, "  listening   %s\n", url)
	for _, u := range in.Uses {
		name, what, _ := strings.Cut(u, ": ")
		fmt.Fprintf(&b, "  %-11s %s\n", name, what)
	}
	if in.Made != nil {
		fmt.Fprintf(&b, "  project     %s, made now; its ingest key, shown this once:\n\n      %s\n\n", in.Made.Name, in.Made.Key.Reveal())
	}
	fmt.Fprintf(&b, "ready. Stop with Ctrl-C.\n")
	_, _ = fmt.Fprint(e.out, b.String())
}
