package delivery

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Reload is what may change while the system runs.
type Reload struct {
	Partners []partner.Partner
	Env      partner.Env            // as in Parts
	Tenants  map[string]queue.Limit // as in Options
	Absent   func(site string) bool // as in Options; nil: events without any consent go to partners
}

// Reloading is a Reload that is prepared. Either Commit or Undo is called, once.
type Reloading struct {
	s         *System
	was, next *force
	fresh     []*target  // that are new, or built anew
	gone      []*target  // that are removed, or built anew
	setUp     []*target  // whose queues have their settings
	back      []*retired // of partners that come again
}

// retired are the pipelines of a partner that was removed: what waits for it becomes a dead letter, so
// that a partner that was removed by mistake loses nothing.
type retired struct {
	name    string
	sources map[string]tidemill.Source
	engines []*flow.Engine
}

// Prepare builds what a reload needs, and gives the queues of partners that are new or changed their
// settings. Partners that are described as before, with the same secrets, are not touched. An error
// leaves everything as it was. Reloads are prepared one at a time, while the system runs.
func (s *System) Prepare(ctx context.Context, r Reload) (*Reloading, error) {
	if r.Absent == nil {
		r.Absent = func(string) bool { return true }
	}
	was := s.now()
	p := &Reloading{s: s, was: was, next: &force{absent: r.Absent, tenants: r.Tenants}}
	err := p.build(r)
	if err == nil {
		err = p.settle(ctx)
	}
	if err != nil {
		p.Undo()
		return nil, fmt.Errorf("delivery: %w", err)
	}
	return p, nil
}

// build puts together what will be in force.
func (p *Reloading) build(r Reload) error {
	for _, described := range r.Partners {
		i := slices.IndexFunc(p.was.targets, func(t *target) bool { return t.Name == described.Name })
		if i >= 0 && p.was.targets[i].same(described, r.Env) {
			p.next.targets = append(p.next.targets, p.was.targets[i])
			continue
		}
		t, err := p.s.target(described, p.next.targets, r.Env)
		if err != nil {
			return err
		}
		p.fresh, p.next.targets = append(p.fresh, t), append(p.next.targets, t)
	}
	for _, old := range p.was.retired {
		if p.next.has(old.name) {
			p.back = append(p.back, old)
		} else {
			p.next.retired = append(p.next.retired, old)
		}
	}
	for _, t := range p.was.targets {
		if slices.Contains(p.next.targets, t) {
			continue
		}
		if p.gone = append(p.gone, t); p.next.has(t.Name) {
			continue
		}
		gone, err := p.s.retire(t)
		if err != nil {
			return err
		}
		p.next.retired = append(p.next.retired, gone)
	}
	p.next.counting()
	return nil
}

func (f *force) has(name string) bool {
	return slices.ContainsFunc(f.targets, func(t *target) bool { return t.Name == name })
}

// same says whether a partner is described as this one, and its secrets are the same.
func (t *target) same(described partner.Partner, env partner.Env) bool {
	if !reflect.DeepEqual(t.from, described) {
		return false
	}
	for name, was := range t.secrets {
		if is, _ := env.Secret(name); !is.Equal(was) {
			return false
		}
	}
	return true
}

// settle gives queues their settings, and counts what waits in them.
func (p *Reloading) settle(ctx context.Context) error {
	sets := p.fresh
	if !reflect.DeepEqual(p.was.tenants, p.next.tenants) {
		sets = p.next.targets
	}
	for _, t := range sets {
		p.setUp = append(p.setUp, t)
		if err := p.s.setUp(ctx, t, p.next.tenants); err != nil {
			return err
		}
	}
	return p.s.levels(ctx, p.fresh)
}

// Undo gives queues the settings again that they had.
func (p *Reloading) Undo() {
	for _, t := range p.setUp {
		i := slices.IndexFunc(p.was.targets, func(old *target) bool { return old.Name == t.Name })
		if i < 0 {
			continue // of a partner that is not there they mean nothing
		}
		if err := p.s.setUp(context.Background(), p.was.targets[i], p.was.tenants); err != nil {
			// Logged when a reload was refused, and a queue's limits could not be set back.
			// To do: reload or restart when the queue's database is well.
			p.s.o.Log.Error("the queue of a partner keeps limits of a configuration that was refused", "queue", t.queue, "error", err)
		}
	}
	for _, t := range p.fresh {
		t.Close()
	}
}

// Commit has the change in force. Events are routed by it from now on. When it returns, no request to
// a partner that was removed is under way, and those to one that was changed are made by its new
// description. What their lanes had begun is finished, what waited in them went back to the queue.
func (p *Reloading) Commit() {
	s := p.s
	s.force.Store(p.next)
	paused := map[string]bool{} // pipelines that an operator has paused
	var stop []*flow.Engine
	var loops []string
	for _, t := range p.gone {
		for _, e := range t.engines() {
			paused[e.Name()] = e.State() == flow.Paused
			_ = e.Pause() // what waits in lanes goes back at once; one that is paused is
			stop = append(stop, e)
		}
		for _, l := range s.loopsOf(t) {
			loops = append(loops, l.Name)
		}
	}
	for _, r := range p.back {
		stop = append(stop, r.engines...)
	}
	if err := s.Leave(stop, loops); err != nil {
		// Logged at a reload, when pipelines of partners did not end in time; what they held is handed
		// out again.
		// To do: nothing: partners may get some events twice, with the same id.
		s.o.Log.Warn("events of partners that were changed or removed come again", "error", err)
	}
	for _, t := range p.gone {
		t.Close()
	}
	var errs []error
	for _, t := range p.fresh {
		errs = append(errs, s.Join(t.engines(), s.loopsOf(t)))
		for _, e := range t.engines() {
			if paused[e.Name()] {
				errs = append(errs, e.Pause())
			}
		}
	}
	for _, r := range p.next.retired {
		if !slices.Contains(p.was.retired, r) {
			errs = append(errs, s.Join(r.engines, nil))
		}
	}
	if err := errors.Join(errs...); err != nil { // it stops
		// Logged at a reload that comes while the instance stops.
		// To do: nothing: the next start has them.
		s.o.Log.Warn("pipelines of partners did not start", "error", err)
	}
}

// retire makes the pipelines that end what waits for a partner after it was removed. They take the
// names, and so the books and dead letters, of its own.
func (s *System) retire(t *target) (*retired, error) {
	r := &retired{name: t.Name, sources: map[string]tidemill.Source{}}
	for _, name := range []string{t.queue, ParkedOf(t.Name)} {
		p := s.pipeline(r.sources, name, s.open(name, 0, t.Ordered))
		p.Batch, p.Dead, p.Rules = s.o.Batch, lettersAs{s.p.DeadLetters, t.queue}, policy.Table{tidemill.Business: {Do: policy.Dead}}
		p.Work = flow.Steps[struct{}]{Decode: func(*tidemill.Message, *struct{}) error { return nil },
			Stages: []flow.Stage[struct{}]{{Name: "removed", Repeat: true, Do: func(_ context.Context, batch []*flow.Item[struct{}]) error {
				for _, it := range batch {
					it.Fail(tidemill.Fail(tidemill.Business, "partner %s was removed from the configuration: configure it again, and a replay sends the event", r.name))
				}
				return nil
			}}}}.Lane
		e, err := flow.New(p)
		if err != nil {
			return nil, err
		}
		r.engines = append(r.engines, e)
	}
	return r, nil
}
