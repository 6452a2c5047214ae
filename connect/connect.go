// Package connect makes an instance of a configuration and a table of systems: it has each system
// that is configured built, puts their endpoints behind one listener and the API, and runs and stops
// them in order. It names no system; each opens its backends itself (package system).
package connect

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	rand2 "math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/apitoken"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/live"
	"github.com/tidemill/tidemill/serve/metrics"
	state "github.com/tidemill/tidemill/state/access"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/project"
)

// Options are what is not configuration.
type Options struct {
	Version string
	Systems []string // which to build; empty: those that are Configured
	Log     *slog.Logger
	Level   *slog.LevelVar                 // of Log, which a reload sets; nil: it stays
	Load    func() (*config.Loaded, error) // reads the configuration again, for a reload; nil: there is none
	Now     func() time.Time               // nil: time.Now

	// Token is what the API asks for where admin.key is not set. Zero: the token in the data folder,
	// which is made if there is none.
	Token  tidemill.Secret
	NoAuth bool // the API asks callers on this machine for no token; config.CheckNoAuth must allow it
}

// Instance is one process's systems on their backends, open but not yet running.
type Instance struct {
	*system.Host
	options   Options
	table     system.Table
	inside    http.Handler // the API, for requests of this process
	reloads   reloading
	shared    described
	mux       *http.ServeMux    // of the common listener
	endpoints []system.Endpoint // of the systems
	pages     []console.System  // of the systems, in the console
	people    state.Store       // users, tokens and sessions; nil: there is no database for them
	token     tidemill.Secret   // of the API; zero: it answers nobody, or with Options.NoAuth all on this machine, profiles excepted
	ports     []*serve.Server   // further listeners
	checks    []func(context.Context) []preflight.Finding
	engines   metrics.Engines // on Metrics
	started   time.Time
	systems   []*flow.System
	ready     readiness

	stopping context.Context // ends when a stop begins
	stop     context.CancelFunc
}

// Open opens every backend that the configuration names and puts the systems together, of those in
// the table.
func Open(ctx context.Context, table system.Table, c *config.Loaded, o Options) (_ *Instance, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Systems) == 0 {
		o.Systems = table.Configured(c)
	}
	for _, name := range o.Systems {
		if err := table.Has(name); err != nil {
			return nil, err
		}
	}
	i := &Instance{options: o, table: table, started: o.Now(), Host: &system.Host{Config: c, Version: o.Version, Systems: o.Systems, Log: o.Log, Now: o.Now, Metrics: newRegistry(o.Version), Way: giveway.Way{Idle: giveway.Idle}, Bounds: table.Bounds(c, o.Systems)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	i.stopping, i.stop = context.WithCancel(context.WithoutCancel(ctx))
	i.reloads = newReloading(i.Metrics)
	i.Sockets, i.Live, i.Takes = &metrics.Sockets{}, i.live, i.takes
	i.Fates = live.New(i.Now, rand2.IntN)
	i.Metrics.MustRegister(&i.engines, i.Sockets)
	if err := i.traces(ctx); err != nil {
		return nil, err
	}
	i.Common = &answer.Common{Log: o.Log, Stopping: i.stopping, Readers: i.Way.Gate(250 * time.Millisecond)}
	i.Observe = newStageMetrics(i.Metrics).observe
	i.mux = http.NewServeMux()
	trusted, err := c.HTTP.Proxies()
	if err != nil {
		return nil, err
	}
	api := &admin.Parts{Version: o.Version, Started: i.started, NoAuth: o.NoAuth, Trusted: trusted, Metrics: i.Metrics, Config: i.InForce, Doctor: i.doctor, Common: i.Common, Owners: table.Owners(), Documents: table.Documents(), Fates: i.Fates}
	rooms, finders := map[string]admin.Room{}, map[string]answer.Finder{}
	for _, s := range table.Of(o.Systems) {
		parts, err := s.Build(ctx, i.Host)
		if err != nil {
			return nil, err
		}
		if err := i.add(parts, api); err != nil {
			return nil, err
		}
		rooms[s.Name] = admin.Room{Does: parts.Operations, Missing: parts.Missing}
		finders[s.Name] = parts.Finder
	}
	api.Rooms, api.Finds, i.pages = table.Rooms(rooms), table.Finds(finders), table.Pages(rooms)
	if i.token, err = apiToken(c, o); err != nil { // after the data were opened: this process owns the folder
		return nil, err
	}
	api.Key = i.token
	if err := i.keepOnce(ctx, api); err != nil {
		return nil, err
	}
	if err := i.keepPeople(ctx, api); err != nil {
		return nil, err
	}
	if err := i.beOneOf(ctx, api); err != nil {
		return nil, err
	}
	if err := i.beDescribed(ctx); err != nil {
		return nil, err
	}
	i.offerDescriptions(api)
	if api.Bulk, err = i.Bulk(ctx); err != nil {
		return nil, err
	}
	i.offerBackup(api)
	i.forgetDead(api)
	i.Loops = append(i.Loops, i.Retention()...)
	if err := i.handle(api); err != nil {
		return nil, err
	}
	return i, nil
}

// beOneOf gives the API the instances that share stores, of which this is one.
func (i *Instance) beOneOf(ctx context.Context, api *admin.Parts) (err error) {
	api.This.ID = uuid.NewString()
	api.This.Host, _ = os.Hostname() // or none
	api.This.Store, err = i.Instances(ctx)
	return err
}

// keepPeople gives the API who may come in beside the owner of its token.
func (i *Instance) keepPeople(ctx context.Context, api *admin.Parts) error {
	c := i.Config.Console
	api.People = access.Options{Hosts: c.Hosts, Idle: c.Sessions.Idle, Absolute: c.Sessions.Absolute, NoPassword: !c.Passwords, NoToken: !c.Tokens, Now: i.Now, Providers: i.providers(), Base: c.Base}
	people, err := i.Access(ctx)
	if err != nil || people == nil {
		return err
	}
	i.people, api.People.Store, api.Views = people, people, people.Views()
	done, err := i.Trail(ctx)
	if err != nil {
		return err
	}
	api.Trail = done
	i.Retain("audit trail", func(ctx context.Context) (int64, bool, error) {
		n, err := done.Expire(ctx, i.Now().Add(-admin.KeptTrail), 2*admin.MostTrail) // with their ends
		return int64(n), n > 0, err
	})
	i.Loops = append(i.Loops, flow.Loop{Name: "sessions", Every: 10 * time.Minute, Do: func(ctx context.Context) error {
		for {
			if n, err := people.Sweep(ctx, i.Now(), 1000); n == 0 || err != nil {
				return err
			}
		}
	}})
	return nil
}

// forgetDead has each store of dead letters discard those that are too old.
func (i *Instance) forgetDead(api *admin.Parts) {
	keep := i.Config.Dead.Keep
	if keep == 0 {
		return
	}
	forget := func(store string, letters deadletter.Store) {
		i.Retain(store, func(ctx context.Context) (int64, bool, error) {
			const most = 200
			old := deadletter.Filter{State: deadletter.Held, Before: i.Now().Add(-keep)}
			if n, err := letters.Count(ctx, old); n == 0 || err != nil { // which holds up no writer
				return 0, false, err
			}
			old.Max = most
			n, err := letters.Delete(ctx, old)
			return int64(n), n == most, err
		})
	}
	if api.Letters != nil {
		forget("dead letters", api.Letters)
	}
	for _, own := range api.OwnLetters {
		forget("dead letters of "+own.System, own.Store)
	}
}

// operate runs operations on many things, and forgets those whose time is over.
func (i *Instance) operate(api *admin.API) {
	if api.Bulk == nil {
		return
	}
	i.Loops = append(i.Loops,
		flow.Loop{Name: "operations", Every: time.Second, AtStart: true, Do: api.Operate()},
		flow.Loop{Name: "ended operations", Every: 10 * time.Minute, Do: func(ctx context.Context) error {
			_, err := api.Bulk.Sweep(ctx, i.Now())
			return err
		}})
}

// keepOnce gives the API the ledger of its idempotency keys.
func (i *Instance) keepOnce(ctx context.Context, api *admin.Parts) error {
	keys, err := i.Ledger(ctx, "api")
	if err != nil || keys == nil {
		return err
	}
	api.Once = keys
	i.Loops = append(i.Loops, flow.Loop{Name: "idempotency keys", Every: time.Hour, Do: func(ctx context.Context) error { return admin.ForgetOnce(ctx, keys, i.Now()) }})
	return nil
}

// add registers what a system consists of.
func (i *Instance) add(p *system.Parts, api *admin.Parts) error {
	for _, r := range p.Runs {
		r.Each(func(e *flow.Engine) {
			e.Watch(i.Fates.Pipeline(r.Name(), e.Name()))
			if i.Tracer != nil {
				e.Trace(i.Tracer)
			}
		})
		i.systems = append(i.systems, r.System)
		counted := r.CountedNow
		if counted == nil {
			counted = func() map[string]tidemill.Bookkeeper { return r.Counted }
		} else {
			r.Shown.Now = func() ([]*flow.Engine, map[string]tidemill.Bookkeeper) { return r.Pipelines(), counted() }
		}
		i.engines.Add(func() ([]*flow.Engine, map[string]tidemill.Bookkeeper) { return r.Pipelines(), counted() })
		r.Shown.Name, r.Shown.Pipelines = r.Name(), r.Pipelines()
		api.Systems = append(api.Systems, r.Shown)
	}
	i.Metrics.MustRegister(p.Metrics...)
	i.checks = append(i.checks, p.Checks...)
	i.endpoints = append(i.endpoints, p.Endpoints...)
	if p.Reload != nil {
		i.reloads.prepare = append(i.reloads.prepare, p.Reload)
	}
	if p.API != nil {
		p.API(api)
	}
	for _, l := range p.Ports {
		if err := i.port(l); err != nil {
			return err
		}
	}
	return nil
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
			// Logged at the start, when there is no token and the data folder cannot keep one.
			// To do: set TIDEMILL_TOKEN, or make the data folder writable.
			o.Log.Warn("the API answers nobody: set TIDEMILL_TOKEN", "error", err)
		}
		return tidemill.Secret{}, nil
	}
	return t, err
}

// HasProjects says whether any system that runs has projects.
func (i *Instance) HasProjects() bool { return i.Projects != nil }

// ProjectNames are the names of the projects; none where nothing that runs has any.
func (i *Instance) ProjectNames(ctx context.Context) (names []string, err error) {
	if i.Projects == nil {
		return nil, nil
	}
	all, err := i.Projects.List(ctx)
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

// FirstProject makes a project with a random key where there is none at all. Nobody can
// see the key later, so it is for who can show it now: it returns nil when there was a
// project already.
func (i *Instance) FirstProject(ctx context.Context) (*config.Project, error) {
	if i.Projects == nil {
		return nil, nil
	}
	all, err := i.Projects.List(ctx)
	if err != nil || len(all) > 0 {
		return nil, err
	}
	key, err := project.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	first := &config.Project{Name: "default", Key: key}
	if err := i.Projects.Ensure(ctx, project.Project{ID: project.ID(first.Name), Name: first.Name}, project.HashOf(first.Key)); err != nil {
		return nil, fmt.Errorf("make the first project: %w", err)
	}
	return first, nil
}

// Run runs the systems, and serves if there is a server, until ctx ends; ready is called
// once events are taken in. Then, in this order: readiness fails, no more requests are
// taken and those that have begun finish, what is in flight is settled or handed back.
// A system that gives up ends the others only if it is the only one.
func (i *Instance) Run(ctx context.Context, server *serve.Server, ready func()) error {
	if err := i.enter(ctx); err != nil {
		return err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	serving, shut := context.WithCancel(ctx)
	defer shut()
	var g, up, endpoint, listening sync.WaitGroup
	errs := make([]error, len(i.systems)+2+len(i.ports))
	for n, s := range i.systems {
		up.Add(1)
		isUp := sync.OnceFunc(up.Done)
		if s.Begins() && len(i.systems) > 1 { // what it waits for keeps nobody else waiting
			isUp()
		}
		s.Listen(func(ctx context.Context) error { // open once its pipelines run
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
		errs[len(i.systems)] = flow.NewSystem(flow.SystemParts{Name: "house", Loops: i.Loops, Log: i.Log}).Run(working)
	})
	if server != nil {
		endpoint.Go(func() {
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
	endpoint.Wait()
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

// DatabasePath is where the embedded database of a data folder lies.
func DatabasePath(data string) string { return system.DatabasePath(data) }
