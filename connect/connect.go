// Package connect turns a configuration into running systems: it is the one place that
// knows which product stands behind which role, and the only package that imports every
// backend.
package connect

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/apitoken"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/ingest"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/serve/probe"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/windows"
)

// Systems are the names that can be run.
func Systems() []string {
	return []string{analytics.Name, bridge.Name, delivery.Name, crm.Name, windows.Name}
}

// Options are what is not configuration.
type Options struct {
	Version string
	Systems []string // which to build; empty: those that are Configured
	Log     *slog.Logger
	Now     func() time.Time // nil: time.Now

	// Token is what the API asks for where admin.key is not set. Zero: the token in the data folder,
	// which is made if there is none.
	Token  tidemill.Secret
	NoAuth bool // the API asks callers on this machine for no token; config.CheckNoAuth must allow it
}

// Instance is one process's systems on their backends, open but not yet running.
type Instance struct {
	Handler http.Handler

	*system.Host
	options  Options
	projects project.Projects         // nil: no system that runs has any
	mux      *http.ServeMux           // of the common listener
	entries  http.Handler             // takes entries of the embedded bridge; nil: there is none
	events   http.Handler             // the endpoint of delivery; nil: it does not run
	business http.Handler             // the endpoint of CRM; nil: it does not run
	records  http.Handler             // the endpoint of windows; nil: it does not run
	healthz  http.Handler             // of delivery; nil: it does not run
	token    tidemill.Secret          // of the API; zero: it answers nobody, or with Options.NoAuth all on this machine, profiles excepted
	operator func(*http.Request) bool // may see what the API shows
	probes   *probe.Probes            // of the embedded bridge, on the common listener; nil: none
	ports    []*serve.Server          // further listeners
	checks   []func(context.Context) []preflight.Finding
	engines  metrics.Engines // on Metrics
	sockets  metrics.Sockets // on Metrics
	started  time.Time
	systems  []*flow.System
	ready    readiness

	stopping context.Context // ends when a stop begins
	stop     context.CancelFunc
}

// Open opens every backend that the configuration names and puts the systems together.
func Open(ctx context.Context, c *config.Loaded, o Options) (_ *Instance, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Systems) == 0 {
		o.Systems = Configured(c)
	}
	for _, name := range o.Systems {
		if !slices.Contains(Systems(), name) {
			return nil, fmt.Errorf("there is no system %q; there are %v", name, Systems())
		}
	}
	i := &Instance{options: o, started: o.Now(), Host: &system.Host{Config: c, Version: o.Version, Systems: o.Systems, Log: o.Log, Now: o.Now, Metrics: newRegistry(o.Version), Bounds: bounds(c, o.Systems)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	i.stopping, i.stop = context.WithCancel(context.WithoutCancel(ctx))
	i.Metrics.MustRegister(&i.engines, &i.sockets)
	i.Observe = newStageMetrics(i.Metrics).observe
	i.mux = http.NewServeMux()
	trusted, err := c.HTTP.Proxies()
	if err != nil {
		return nil, err
	}
	api := &admin.Parts{Version: o.Version, Started: i.started, NoAuth: o.NoAuth, Trusted: trusted, Metrics: i.Metrics, Config: i.Config, Doctor: i.doctor, Log: o.Log, Stopping: i.stopping}
	var door http.Handler
	if i.runs(analytics.Name) {
		if door, err = i.analytics(ctx, api); err != nil {
			return nil, err
		}
	}
	if i.runs(bridge.Name) {
		if err = i.bridge(ctx, api); err != nil {
			return nil, err
		}
	}
	if i.runs(delivery.Name) {
		if err = i.delivery(ctx, api); err != nil {
			return nil, err
		}
	}
	if i.runs(crm.Name) {
		if err = i.crm(ctx, api); err != nil {
			return nil, err
		}
	}
	if i.runs(windows.Name) {
		if err = i.windowsOn(ctx, api); err != nil {
			return nil, err
		}
	}
	if i.token, err = apiToken(c, o); err != nil { // after the data were opened: this process owns the folder
		return nil, err
	}
	api.Key = i.token
	i.handle(api, door)
	return i, nil
}

// apiToken is what the API asks for; zero where there is none.
func apiToken(c *config.Loaded, o Options) (tidemill.Secret, error) {
	switch {
	case !c.Admin.Key.IsZero():
		return c.Admin.Key, nil
	case !o.Token.IsZero():
		return o.Token, nil
	}
	t, err := apitoken.Keep(c.Data)
	if errors.Is(err, apitoken.ErrNotKept) { // who needs no folder otherwise starts all the same
		if !o.NoAuth {
			o.Log.Warn("the API answers nobody: set TIDEMILL_TOKEN", "error", err)
		}
		return tidemill.Secret{}, nil
	}
	return t, err
}

// Configured are the systems that run: those that are named (systems, TIDEMILL_SYSTEMS, the
// arguments of run), else those that something configures, and analytics where nothing configures
// any. What configures one is said in docs/operations.md.
func Configured(c *config.Loaded) (names []string) {
	if len(c.Systems) > 0 {
		return c.Systems
	}
	for _, s := range []struct {
		name string
		is   bool
	}{
		{analytics.Name, c.AnalyticsConfigured()},
		{bridge.Name, !c.Bridge.Embedded()},
		{delivery.Name, c.Delivery.Configured()},
		{crm.Name, c.CRM.Configured()},
		{windows.Name, c.Windows.Configured()},
	} {
		if s.is {
			names = append(names, s.name)
		}
	}
	if len(names) == 0 {
		return []string{analytics.Name}
	}
	return names
}

// Check refuses what some systems cannot start with and config.Load does not look at, because it
// is no mistake where they do not run. It connects to nothing.
func Check(c *config.Loaded, systems []string) error {
	var errs []error
	for _, name := range systems {
		if !slices.Contains(Systems(), name) {
			errs = append(errs, fmt.Errorf("systems (from %s): there is no system %q; there is %s", c.From["systems"], name, strings.Join(Systems(), ", ")))
		}
	}
	for _, of := range []struct {
		system string
		check  func() error
	}{{bridge.Name, c.Bridge.Check}, {windows.Name, c.CheckWindows}, {delivery.Name, c.CheckDelivery}} {
		if slices.Contains(systems, of.system) {
			errs = append(errs, of.check())
		}
	}
	return errors.Join(errs...)
}

// runs says whether a system is to be built.
func (i *Instance) runs(system string) bool { return slices.Contains(i.Systems, system) }

// bounds are those of the first of the systems that has some; for the bridge alone those of
// analytics.
func bounds(c *config.Loaded, systems []string) system.Bounds {
	all := map[string]system.Bounds{
		delivery.Name: {Jobs: c.Delivery.QueueMax, DeadLetters: c.Delivery.DeadMax},
		crm.Name:      {Jobs: c.CRM.QueueMax, DeadLetters: c.CRM.DeadMax},
		windows.Name:  {Jobs: c.Windows.QueueMax, DeadLetters: c.Windows.DeadMax},
	}
	if !slices.Contains(systems, analytics.Name) {
		for _, name := range Systems() {
			if b, ok := all[name]; ok && slices.Contains(systems, name) {
				return b
			}
		}
	}
	return system.Bounds{Jobs: c.Analytics.QueueMax, DeadLetters: c.Analytics.DeadMax, Trim: c.Analytics.DeadTrim}
}

// ensureProjects makes the configured projects and keys.
func (i *Instance) ensureProjects(ctx context.Context, all project.Projects) error {
	for _, p := range i.Config.Projects {
		if err := i.checkShort(ctx, all, p); err != nil {
			return fmt.Errorf("project %q: %w", p.Name, err)
		}
		if err := all.Ensure(ctx, project.Project{ID: project.ID(p.Name), Name: p.Name}, project.HashOf(p.Key)); err != nil {
			return fmt.Errorf("project %q: %w", p.Name, err)
		}
	}
	return nil
}

// checkShort refuses a new key that others than this machine can guess. One that is known already
// stands in web pages, and stays good; config.Warnings names it.
func (i *Instance) checkShort(ctx context.Context, all project.Projects, p config.Project) error {
	host, _, err := net.SplitHostPort(i.Config.Listen)
	if n := len(p.Key.Reveal()); n < config.LeastKey && (err != nil || !config.Loopback(host)) {
		_, err := all.ByKey(ctx, project.HashOf(p.Key))
		if errors.Is(err, project.ErrUnknown) {
			return fmt.Errorf("its new key has %d characters, and %s can be reached from other machines: use %d or more", n, i.Config.Listen, config.LeastKey)
		}
		return err
	}
	return nil
}

// HasProjects says whether any system that runs has projects.
func (i *Instance) HasProjects() bool { return i.projects != nil }

// ProjectNames are the names of the projects; none where nothing that runs has any.
func (i *Instance) ProjectNames(ctx context.Context) (names []string, err error) {
	if i.projects == nil {
		return nil, nil
	}
	all, err := i.projects.List(ctx)
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

// FirstProject makes a project with a random key where there is none at all. Nobody can
// see the key later, so it is for who can show it now: it returns nil when there was a
// project already.
func (i *Instance) FirstProject(ctx context.Context) (*config.Project, error) {
	if i.projects == nil {
		return nil, nil
	}
	all, err := i.projects.List(ctx)
	if err != nil || len(all) > 0 {
		return nil, err
	}
	raw := make([]byte, 24)
	_, _ = rand.Read(raw) // never fails
	first := &config.Project{Name: "default", Key: tidemill.NewSecret("tm_" + base64.RawURLEncoding.EncodeToString(raw))}
	if err := i.projects.Ensure(ctx, project.Project{ID: project.ID(first.Name), Name: first.Name}, project.HashOf(first.Key)); err != nil {
		return nil, fmt.Errorf("make the first project: %w", err)
	}
	return first, nil
}

// Run runs the systems, and serves if there is a server, until ctx ends; ready is called
// once events are taken in. Then, in this order: readiness fails, no more requests are
// taken and those that have begun finish, what is in flight is settled or handed back.
// A system that gives up ends the others only if it is the only one.
func (i *Instance) Run(ctx context.Context, server *serve.Server, ready func()) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	serving, shut := context.WithCancel(ctx)
	defer shut()
	var g, up, door, listening sync.WaitGroup
	errs := make([]error, len(i.systems)+2+len(i.ports))
	for n, s := range i.systems {
		up.Add(1)
		isUp := sync.OnceFunc(up.Done)
		if len(s.Begin) > 0 && len(i.systems) > 1 { // what it waits for keeps nobody else waiting
			isUp()
		}
		s.Doors = append(s.Doors, func(ctx context.Context) error { // open once its pipelines run
			isUp()
			<-ctx.Done()
			return nil
		})
		g.Go(func() {
			defer isUp()
			if errs[n] = s.Run(working); errs[n] != nil && len(i.systems) == 1 {
				shut()
			}
		})
	}
	g.Go(func() {
		errs[len(i.systems)] = (&flow.System{Name: "house", Loops: i.Loops, Log: i.Log}).Run(working)
	})
	if server != nil {
		door.Go(func() {
			errs[len(i.systems)+1] = server.Run(serving, serverGrace)
			shut()
		})
	}
	for n, port := range i.ports { // until the very end: a probe wants to see that it stops
		listening.Go(func() { errs[len(i.systems)+2+n] = port.Run(working, time.Second) })
	}
	i.ports = nil
	begun := make(chan struct{})
	go func() { up.Wait(); close(begun) }()
	select {
	case <-begun:
		i.ready.set(true)
		ready()
		<-serving.Done()
	case <-serving.Done(): // told to stop while something waited for its server
	}
	i.ready.set(false)
	i.stop()
	door.Wait()
	stop()
	g.Wait()
	listening.Wait()
	return errors.Join(errs...)
}

// serverGrace is how long requests that have begun may go on after a stop.
const serverGrace = 10 * time.Second

// Close closes the backends, the last one opened first. Closing again does nothing.
func (i *Instance) Close() error {
	i.stop()
	var errs []error
	for _, p := range i.ports { // those that were never run
		errs = append(errs, p.Close())
	}
	i.ports = nil
	return errors.Join(append(errs, i.Host.Close())...)
}

// sendNative takes events that an operator sends: no key, the native format.
func sendNative(door *ingest.Handler) func(context.Context, uuid.UUID, [][]byte) (admin.Sent, error) {
	return func(ctx context.Context, p uuid.UUID, events [][]byte) (admin.Sent, error) {
		t, err := door.Accept(ctx, p, events)
		return admin.Sent{Accepted: t.Accepted, Duplicates: t.Known, Refused: len(t.Refused), Reasons: t.Refused}, err
	}
}

// DatabasePath is where the embedded database of a data folder lies.
func DatabasePath(data string) string { return system.DatabasePath(data) }
