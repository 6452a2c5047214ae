package connect

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// reloading is what reloads of an instance share.
type reloading struct {
	turn    chan struct{} // holds one reload at a time; the next waits
	prepare []system.Prepare
	last    *prometheus.GaugeVec
}

func newReloading(r prometheus.Registerer) reloading {
	l := reloading{turn: make(chan struct{}, 1), last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tidemill_config_reload_timestamp_seconds",
		Help: "When the configuration was last read again, by the outcome: applied, or refused with everything left as it was."}, []string{"outcome"})}
	r.MustRegister(l.last)
	return l
}

// ReloadBy reloads the configuration for a caller that is no request, as the API's operation does: it
// is in the audit trail. The log says what came of it.
func (i *Instance) ReloadBy(ctx context.Context, name string) (api.Reload, error) {
	done, err := api.ReloadConfig.Call(caller.With(ctx, caller.Key(name, name, netip.Addr{})), operation.Inside(i.inside), &operation.None{})
	if err != nil {
		// Logged when a reload was asked for by a signal, and the configuration is wrong or could not
		// be put in force.
		// To do: correct what the error names (`tidemill config check`), and reload again.
		i.Log.ErrorContext(ctx, "the configuration was not reloaded, and everything is as it was", "by", name, "error", err)
	}
	return done, err
}

// Reload reads the configuration again as at the start, and applies what has changed of the settings
// that can be while it runs. What needs a restart is named, and stays as it was. Where anything is
// wrong, nothing is changed at all. With preview it says what it would do, and does nothing. Of two
// at once the second waits.
func (i *Instance) Reload(ctx context.Context, preview bool) (done api.Reload, err error) {
	end, err := i.turn(ctx)
	if err != nil {
		return done, err
	}
	defer end()
	if !i.ready.on.Load() {
		return done, operation.Refuse(http.StatusServiceUnavailable, "nothing was changed: the instance is starting or stopping; try again")
	}
	if preview {
		_, done, err = i.readAgain()
		return done, err
	}
	done, err = i.apply(ctx)
	outcome := "applied"
	if err != nil {
		outcome = "refused"
	}
	i.reloads.last.WithLabelValues(outcome).Set(float64(i.Now().UnixMilli()) / 1e3)
	return done, err
}

// turn waits until no other reload is under way; end ends the turn.
func (i *Instance) turn(ctx context.Context) (end func(), err error) {
	select {
	case i.reloads.turn <- struct{}{}:
		return func() { <-i.reloads.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// apply makes the configuration that is read the one in force.
func (i *Instance) apply(ctx context.Context) (done api.Reload, err error) {
	next, done, err := i.readAgain()
	if err != nil {
		return done, err
	}
	ready, err := i.prepare(ctx, next)
	if err != nil {
		return done, operation.Refuse(http.StatusConflict, "nothing was changed: %v", err)
	}
	i.commit(ctx, next, ready, done)
	i.shared.tried = time.Time{} // what the database describes may be possible now
	return done, nil
}

// commit has another configuration in force, which was prepared.
func (i *Instance) commit(ctx context.Context, next *config.Loaded, ready []*system.Prepared, done api.Reload) {
	for _, p := range ready {
		if p.Commit != nil {
			p.Commit()
		}
	}
	for _, e := range i.endpoints {
		if h, ok := e.Handler.(interface{ ForgetKeys() }); ok {
			h.ForgetKeys()
		}
	}
	i.PutInForce(next)
	if i.options.Level != nil {
		i.options.Level.Set(next.LogOf(i.options.Systems).Slog())
	}
	for _, c := range done.Applied {
		// Logged at a reload, for each setting that is in force now.
		i.Log.InfoContext(ctx, "setting changed by a reload", "setting", c.Setting, "what", c.What, "before", c.Before, "after", c.After)
	}
	for _, c := range done.Restart {
		// Logged at a reload, for each setting that is another in the configuration and is not in
		// force.
		// To do: restart the instance when it suits.
		i.Log.WarnContext(ctx, "setting not changed: it needs a restart", "setting", c.Setting, "what", c.What, "before", c.Before, "after", c.After)
	}
	// Logged at the end of a reload that was put in force.
	i.Log.InfoContext(ctx, "configuration reloaded", "by", caller.From(ctx).Name, "applied", len(done.Applied), "needs_restart", len(done.Restart))
}

// prepare prepares all systems, or none.
func (i *Instance) prepare(ctx context.Context, next *config.Loaded) (ready []*system.Prepared, err error) {
	for _, prepare := range append(slices.Clip(i.reloads.prepare), i.ReloadProjects) {
		var p *system.Prepared
		if p, err = prepare(ctx, next); err != nil {
			break
		}
		ready = append(ready, p)
	}
	if err == nil {
		return ready, nil
	}
	undo(ready)
	return nil, err
}

// undo takes back what was prepared.
func undo(ready []*system.Prepared) {
	for _, p := range slices.Backward(ready) {
		if p.Undo != nil {
			p.Undo()
		}
	}
}

// readAgain reads the configuration, and says what it changes. next is as it would be in force: what
// needs a restart is in it as it is now.
func (i *Instance) readAgain() (next *config.Loaded, done api.Reload, err error) {
	done.Applied, done.Restart = []api.SettingChange{}, []api.SettingChange{}
	if i.options.Load == nil {
		return nil, done, operation.Refuse(http.StatusConflict, "this instance has no configuration to read again")
	}
	is := i.InForce()
	if next, err = i.options.Load(); err != nil {
		return nil, done, wrong(err)
	}
	done.File = next.File
	if next, err = i.withDescriptions(next, *i.shared.kept.Load()); err != nil {
		return nil, done, wrong(err)
	}
	restart := func(c *config.Change) bool { return !c.Reload || !i.runs(c.Group()) }
	for _, c := range is.Changes(next) {
		if restart(&c) {
			done.Restart = append(done.Restart, shownChange(&c))
		} else {
			done.Applied = append(done.Applied, shownChange(&c))
		}
	}
	if was, now := i.table.Configured(is), i.table.Configured(next); len(next.Systems) == 0 && !slices.Equal(was, now) {
		done.Restart = append(done.Restart, api.SettingChange{Setting: "systems", What: config.Changed, Before: strings.Join(was, ","), After: strings.Join(now, ",")})
	}
	if err := errors.Join(is.With(next, restart), i.table.Check(next, i.options.Systems)); err != nil {
		return nil, done, wrong(err)
	}
	return next, done, nil
}

// runs says whether a group of settings is of a system that runs, or of none.
func (i *Instance) runs(group string) bool {
	return slices.Contains(i.options.Systems, group) || !slices.Contains(i.table.Names(), group)
}

func shownChange(c *config.Change) api.SettingChange {
	return api.SettingChange{Setting: c.Setting, What: c.What, Before: c.Before, After: c.After}
}

// wrong is all that is wrong with a configuration, a line each.
func wrong(err error) *operation.Problem {
	return operation.Refuse(http.StatusUnprocessableEntity, "nothing was changed: the configuration is wrong:\n  %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
}
