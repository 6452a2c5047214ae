package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/windows"
)

type runCmd struct {
	settings
	Systems []string `arg:"" optional:"" name:"system" help:"Systems to run, of ${systems}. Default: all that are configured."`
	Listen  string   `help:"Address to listen on. Default: 127.0.0.1:8484." placeholder:"ADDR"`
	Project []string `help:"A project and its ingest key; may be given again. A NAME that is a UUID is the project's id." placeholder:"NAME=KEY" sep:"none"`
	Log     string   `help:"Least level that is logged: trace, debug, info, warn, error." placeholder:"LEVEL"`
	kong.Plugins

	bridge *bridgeFlags // what Plugins are made of
}

// Help is shown by tidemill run --help.
func (c *runCmd) Help() string {
	return `With no configuration everything runs embedded: one SQLite file in ./tidemill-data.

Point an SDK at the address it prints, with the project's key as API key or write key:

  posthog-node              new PostHog(KEY, { host: 'http://127.0.0.1:8484' })
  @segment/analytics-node   new Analytics({ writeKey: KEY, host: 'http://127.0.0.1:8484' })

The bridge has a flag for most of its settings, like --redis-addr and --mqtt-broker: tidemill run bridge --help lists them.

SIGTERM and Ctrl-C stop it in order: no event is lost. A second one ends it at once, which loses nothing either.`
}

func (c *runCmd) Run(ctx context.Context, e env) (err error) {
	flags := c.bridge.given()
	if c.Listen != "" {
		flags["listen"] = c.Listen
	}
	if c.Log != "" {
		flags["log.level"] = c.Log
	}
	cfg, err := c.read(e, flags)
	systems := c.systems(cfg)
	bridge := slices.Contains(systems, bridgeName)
	if names := c.bridge.names(); len(names) > 0 && !bridge {
		return usageError{fmt.Errorf("%s: a flag of the bridge, which does not run here: tidemill run bridge runs it", strings.Join(names, ", "))}
	}
	if bridge {
		err = errors.Join(err, cfg.Bridge.Check())
	}
	if slices.Contains(systems, windows.Name) {
		err = errors.Join(err, cfg.CheckWindows())
	}
	if err != nil {
		return wrongConfig{err}
	}
	more, err := projectFlags(c.Project)
	if err != nil {
		return err
	}
	cfg.Projects = append(cfg.Projects, more...)
	if err := known(systems); err != nil {
		return err
	}
	bounded, unbound := context.WithCancel(ctx)
	var memory sync.WaitGroup
	memory.Go(func() { boundMemory(bounded, e.getenv, roomOf(cfg, systems)) })
	defer memory.Wait()
	defer unbound()
	signal.Ignore(syscall.SIGPIPE) // whoever read our output may go; the events may not
	log, closeLog, err := logTo(&cfg.LogFiles, cfg.LogOf(bridge), e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	in, err := connect.Open(ctx, cfg, connect.Options{Version: buildVersion(), Systems: systems, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	server, err := serve.Listen(cfg.Listen, in.Handler, serve.Limits{Connections: cfg.HTTP.Connections, Body: cfg.HTTP.BodyTimeout}, log)
	if err != nil {
		return err
	}
	made, err := in.FirstProject(ctx)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	url := "http://" + server.Addr()
	greet(e, in, url)
	if made != nil {
		_, _ = fmt.Fprintf(e.out, firstKeyOf(systems), made.Name, made.Key.Reveal(), url)
	}
	told := make(chan struct{})
	untell := context.AfterFunc(ctx, func() {
		defer close(told)
		_, _ = fmt.Fprintln(e.out, "stopping: what has begun is finished. Ctrl-C again ends it at once.")
	})
	err = in.Run(ctx, server, func() { _, _ = fmt.Fprintln(e.out, "ready. Stop with Ctrl-C.") })
	if !untell() {
		<-told
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.out, "stopped.")
	return err
}

// systems are those that were named, or all that are configured.
func (c *runCmd) systems(cfg *config.Loaded) []string {
	if len(c.Systems) > 0 {
		return c.Systems
	}
	return connect.Configured(&cfg.Config)
}

// known refuses systems that there are not.
func known(systems []string) error {
	for _, name := range systems {
		if !slices.Contains(connect.Systems(), name) {
			return usageError{fmt.Errorf("there is no system %q; there is %s", name, strings.Join(connect.Systems(), ", "))}
		}
	}
	return nil
}

// greet says where it listens and what it uses.
func greet(e env, in *connect.Instance, url string) {
	var b strings.Builder
	fmt.Fprintf(&b, "tidemill %s (%s)\n", buildVersion(), runtime.Version())
	fmt.Fprintf(&b, "  listening   %s\n", url)
	for _, u := range in.Uses {
		name, what, _ := strings.Cut(u, ": ")
		fmt.Fprintf(&b, "  %-11s %s\n", name, what)
	}
	_, _ = fmt.Fprint(e.out, b.String())
}

// firstKey shows the key of the project that was made because there was none.
const firstKey = `  project     %s, made now. Its ingest key, shown this once:

      %s

  Give it to an SDK as API key or write key, with %s as host.
  Lost it? tidemill run --project default=ANOTHER-KEY adds one.

`

// firstTenant is the same where CRM alone runs.
const firstTenant = `  tenant      %[1]s, made now. Its key, shown this once:

      %[2]s

  Send it an event, and see what becomes of it:

      curl %[3]s/v1/crm/events -H 'X-API-Key: %[2]s' -H 'Content-Type: application/json' -d '{
        "id": "1", "type": "member.created", "tenantId": "%[1]s", "identity": {"email": "ann@example.com"},
        "occurredAt": "2026-01-15T10:00:00Z", "payload": {"city": "Berlin"}}'
      curl %[3]s/v1/crm/events/1 -H 'X-API-Key: %[2]s'

  Lost it? tidemill run crm --project default=ANOTHER-KEY adds one.

`

// firstSender is the same where windows alone run.
const firstSender = `  project     %[1]s, made now. Its key, shown this once:

      %[2]s

  Send records of a batch, and find them when their window is over:

      curl %[3]s/v1/windows/events -H 'X-API-Key: %[2]s' -H 'X-Batch-ID: 20260115100000' -H 'Content-Type: application/json' \
        -d '{"globalEventId": 1, "day": 20260115, "eventCode": "141", "actor1Name": "BERLIN"}'
      tidemill window list
      tidemill search berlin

  Lost it? tidemill run windows --project default=ANOTHER-KEY adds one.

`

// firstKeyOf is how the first key is told, by what it is for.
func firstKeyOf(systems []string) string {
	switch {
	case slices.Equal(systems, []string{crm.Name}):
		return firstTenant
	case slices.Equal(systems, []string{windows.Name}):
		return firstSender
	}
	return firstKey
}
