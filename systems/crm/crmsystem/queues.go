package crmsystem

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// apart are the queues of two stores as one, for who looks and moves: the one queue of a
// system that has a store of its own, and all others.
type apart struct {
	own  queue.Store
	name string // of its queue
	rest queue.Store
}

var _ queue.Store = apart{}

func (a apart) of(name string) queue.Store {
	if name == a.name {
		return a.own
	}
	return a.rest
}

// Add implements queue.Intake.
func (a apart) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	for _, s := range []queue.Store{a.own, a.rest} {
		var its []*tidemill.Message
		var at []int
		for i, j := range jobs {
			if a.of(j.To) == s {
				its, at = append(its, j), append(at, i)
			}
		}
		if len(its) == 0 {
			continue
		}
		var became []queue.Added
		if added != nil {
			became = make([]queue.Added, len(its))
		}
		if err := s.Add(ctx, its, became); err != nil {
			return err
		}
		for i, b := range became {
			added[at[i]] = b
		}
	}
	return nil
}

// Knows implements queue.Register.
func (a apart) Knows(ctx context.Context, names []queue.Name, known []bool) error {
	if err := queue.CheckKnows(ctx, names, known); err != nil {
		return err
	}
	for i, n := range names {
		if err := a.of(n.Queue).Knows(ctx, names[i:i+1], known[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// List implements queue.Inspector: where no queue is named, its own first.
func (a apart) List(ctx context.Context, f queue.Filter) iter.Seq2[*queue.Job, error] {
	if f.Queue != "" {
		return a.of(f.Queue).List(ctx, f)
	}
	return func(yield func(*queue.Job, error) bool) {
		own := f
		own.Queue = a.name
		n := 0
		for j, err := range a.own.List(ctx, own) {
			if n++; !yield(j, err) || err != nil {
				return
			}
		}
		rest := f
		if f.Max > 0 {
			if rest.Max -= n; rest.Max <= 0 {
				return
			}
		}
		for j, err := range a.rest.List(ctx, rest) {
			if !yield(j, err) || err != nil {
				return
			}
		}
	}
}

// Queues implements queue.Meter.
func (a apart) Queues(ctx context.Context) ([]string, error) {
	return joined(a, func(s queue.Store) ([]string, error) { return s.Queues(ctx) }, func(name string) string { return name })
}

func (a apart) Stats(ctx context.Context, name string) (queue.Stats, error) {
	return a.of(name).Stats(ctx, name)
}

func (a apart) Open(name string, o queue.Options) tidemill.Source { return a.of(name).Open(name, o) }

func (a apart) Settings(ctx context.Context, name string) (queue.Settings, error) {
	return a.of(name).Settings(ctx, name)
}

func (a apart) Set(ctx context.Context, name string, change func(*queue.Settings)) (queue.Settings, error) {
	return a.of(name).Set(ctx, name, change)
}

func (a apart) Turn(ctx context.Context, name, tenant string, n int) (int, time.Time, error) {
	return a.of(name).Turn(ctx, name, tenant, n)
}

func (a apart) Retry(ctx context.Context, f queue.Filter) (int, error) {
	return a.of(f.Queue).Retry(ctx, f)
}

func (a apart) Promote(ctx context.Context, f queue.Filter) (int, error) {
	return a.of(f.Queue).Promote(ctx, f)
}

func (a apart) Remove(ctx context.Context, f queue.Filter) (int, error) {
	return a.of(f.Queue).Remove(ctx, f)
}

func (a apart) Look(ctx context.Context, n queue.Name) (*queue.Job, error) {
	return a.of(n.Queue).Look(ctx, n)
}

func (a apart) Edit(ctx context.Context, n queue.Name, payload []byte, seen string) error {
	return a.of(n.Queue).Edit(ctx, n, payload, seen)
}

func (a apart) Depths(ctx context.Context, name string) ([]queue.Depth, error) {
	return a.of(name).Depths(ctx, name)
}

// Standing implements queue.Meter.
func (a apart) Standing(ctx context.Context) ([]queue.Standing, error) {
	return joined(a, func(s queue.Store) ([]queue.Standing, error) { return s.Standing(ctx) }, func(s queue.Standing) string { return s.Queue })
}

// Tenant implements queue.Meter.
func (a apart) Tenant(ctx context.Context, tenant string) ([]queue.Depth, error) {
	return joined(a, func(s queue.Store) ([]queue.Depth, error) { return s.Tenant(ctx, tenant) }, queueOf)
}

// Tenants implements queue.Meter.
func (a apart) Tenants(ctx context.Context, name string, most int) ([]queue.Depth, error) {
	if name != "" {
		return a.of(name).Tenants(ctx, name, most)
	}
	return joined(a, func(s queue.Store) ([]queue.Depth, error) { return s.Tenants(ctx, "", most) }, queueOf)
}

func queueOf(d queue.Depth) string { return d.Queue }

// joined is what both stores say of their queues, by the names of these.
func joined[T any](a apart, ask func(queue.Store) ([]T, error), of func(T) string) ([]T, error) {
	own, err := ask(a.own)
	if err != nil {
		return nil, err
	}
	rest, err := ask(a.rest)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(rest, func(t T) bool { return of(t) == a.name })
	all = append(all, slices.DeleteFunc(own, func(t T) bool { return of(t) != a.name })...)
	slices.SortStableFunc(all, func(x, y T) int { return strings.Compare(of(x), of(y)) })
	return all, nil
}
