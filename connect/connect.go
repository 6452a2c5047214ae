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
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/serve"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics"
)

// Systems are the names that can be run.
func Systems() []string { return []string{analytics.Name} }

// Options are what is not configuration.
type Options struct {
	Version string
	Systems []string // which to build; empty: all
	Log     *slog.Logger
	Now     func() time.Time // nil: time.Now
}

// Instance is one process's systems on their backends, open but not yet running.
type Instance struct {
	Uses    []string // what it runs on, a line each, for people
	Made    *NewKey  // the project that was made because there was none
	Handler http.Handler

	config  *config.Loaded
	options Options
	db      *sqlitedb.DB
	metrics *prometheus.Registry
	started time.Time
	systems []*flow.System
	loops   []flow.Loop
	ready   readiness
}

// NewKey is a project with a key that nobody has seen yet. It is shown once.
type NewKey struct {
	Name string
	Key  tidemill.Secret
}

// Open opens every backend that the configuration names and puts the systems together.
func Open(ctx context.Context, c *config.Loaded, o Options) (_ *Instance, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for _, name := range o.Systems {
		if !slices.Contains(Systems(), name) {
			return nil, fmt.Errorf("there is no system %q; there are %v", name, Systems())
		}
	}
	i := &Instance{config: c, options: o, started: o.Now(), metrics: newRegistry(o.Version)}
	if i.db, err = sqlitedb.Open(ctx, DatabasePath(c.Data), sqlitedb.Options{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.db.Close())
		}
	}()
	i.Uses = append(i.Uses, "database: SQLite, "+i.db.Path())
	if err := i.embedded(ctx); err != nil {
		return nil, err
	}
	return i, nil
}

// DatabasePath is where the embedded database of a data folder lies.
func DatabasePath(data string) string { return filepath.Join(data, "tidemill.db") }

// ensureProjects makes the configured projects and keys; with none anywhere, one.
func (i *Instance) ensureProjects(ctx context.Context, ps project.Projects) error {
	for _, p := range i.config.Projects {
		if err := ps.Ensure(ctx, project.Project{ID: project.ID(p.Name), Name: p.Name}, project.HashOf(p.Key)); err != nil {
			return fmt.Errorf("project %q: %w", p.Name, err)
		}
	}
	all, err := ps.List(ctx)
	if err != nil || len(all) > 0 {
		return err
	}
	raw := make([]byte, 24)
	_, _ = rand.Read(raw) // never fails
	key := tidemill.NewSecret("tm_" + base64.RawURLEncoding.EncodeToString(raw))
	p := project.Project{ID: project.ID("default"), Name: "default"}
	if err := ps.Ensure(ctx, p, project.HashOf(key)); err != nil {
		return err
	}
	i.Made = &NewKey{Name: p.Name, Key: key}
	return nil
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
	var g, door sync.WaitGroup
	errs := make([]error, len(i.systems)+2)
	for n, s := range i.systems {
		g.Go(func() {
			if errs[n] = s.Run(working); errs[n] != nil && len(i.systems) == 1 {
				shut()
			}
		})
	}
	g.Go(func() {
		errs[len(i.systems)] = (&flow.System{Name: "house", Loops: i.loops, Log: i.options.Log}).Run(working)
	})
	if server != nil {
		door.Go(func() {
			errs[len(i.systems)+1] = server.Run(serving, serverGrace)
			shut()
		})
	}
	i.ready.set(true)
	ready()
	<-serving.Done()
	i.ready.set(false)
	door.Wait()
	stop()
	g.Wait()
	return errors.Join(errs...)
}

// serverGrace is how long requests that have begun may go on after a stop.
const serverGrace = 10 * time.Second

// Close closes the backends.
func (i *Instance) Close() error { return i.db.Close() }

// sendNative takes events that an operator sends: no key, the native format.
func sendNative(accept func(ctx context.Context, p uuid.UUID, events [][]byte) (int, []string, error)) func(context.Context, uuid.UUID, [][]byte) (admin.Sent, error) {
	return func(ctx context.Context, p uuid.UUID, events [][]byte) (admin.Sent, error) {
		n, refused, err := accept(ctx, p, events)
		return admin.Sent{Accepted: n, Refused: len(refused), Reasons: refused}, err
	}
}
