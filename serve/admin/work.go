package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/instance"
	"github.com/tidemill/tidemill/state/queue"
)

// there are the instances that are there, this one among them. False: the others cannot be read now.
func (a *API) there(ctx context.Context) (all []instance.Instance, ok bool) {
	all = append(all, a.here())
	if a.This.Store == nil {
		return all, true
	}
	others, err := a.This.Store.List(ctx)
	now := a.Now()
	for _, i := range others {
		if i.ID != a.This.ID && i.Is(now) {
			all = append(all, i)
		}
	}
	return all, err == nil
}

// work says who works on a queue: the pipeline that has its name, of every instance.
func work(q *api.Queue, among []instance.Instance, all bool) {
	paused := 0
	for _, i := range among {
		for _, p := range i.Pipelines {
			if p.Name != q.Name {
				continue
			}
			q.Workers = append(q.Workers, api.QueueWorker{Instance: i.ID, Host: i.Host, State: p.State, InFlight: p.InFlight, Lanes: p.Lanes, Since: answer.When(i.Started)})
			if p.State != flow.Running.String() {
				paused++
			}
		}
	}
	switch n := len(q.Workers); {
	case !all || q.Leased > 0:
	case n == 0:
		q.Nobody = "Nobody works on it: no instance that is there has a pipeline for it. Run its system, or configure its partner again."
	case paused == n:
		q.Nobody = fmt.Sprintf("Nobody works on it: its pipeline does not run in any of %d instances. Resume it: tidemill resume %s", n, q.Name)
	}
}

// holds says what may hold a tenant's jobs back; empty: only that others take turns with it.
func holds(s *queue.Settings, tenant string) string {
	if s.Paused {
		return "the queue is paused"
	}
	var by []string
	own, named := s.Tenants[tenant]
	if !named {
		own = s.Tenant
	}
	for _, l := range []struct {
		whose string
		queue.Limit
	}{{"its own limit", own}, {"the limit of each key", s.Key}, {"the limit of the whole queue", s.Limit}} {
		if l.PerSecond > 0 {
			by = append(by, fmt.Sprintf("%s of %g a second", l.whose, l.PerSecond))
		}
		if l.AtOnce > 0 {
			by = append(by, fmt.Sprintf("%s of %d at once", l.whose, l.AtOnce))
		}
	}
	return strings.Join(by, ", ")
}
