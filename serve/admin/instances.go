package admin

import (
	"context"
	"errors"
	"runtime/metrics"
	"time"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/instance"
)

// This is the instance that answers.
type This struct {
	ID    string         // made anew at each start
	Host  string         // the name of its machine
	Store instance.Store // of all that share stores; nil: this one is alone

	Described func() instance.Described // nil: nothing is
}

// here is how this instance stands.
func (a *API) here() instance.Instance {
	out := instance.Instance{ID: a.This.ID, Host: a.This.Host, Version: a.Version, Started: a.Started.UTC(), Seen: a.Now().UTC(), Memory: memory(), Systems: []string{}, Pipelines: []instance.Pipeline{}}
	if a.This.Described != nil {
		out.Described = a.This.Described()
	}
	for _, s := range a.systems() {
		out.Systems = append(out.Systems, s.Name)
		for _, e := range s.Pipelines {
			st := e.Stats()
			p := instance.Pipeline{Name: e.Name(), State: st.State.String(), InFlight: st.InFlight, Lanes: len(st.Lanes), Breaker: st.Breaker.String()}
			if st.Errors > 0 && st.Last != nil {
				p.Error = st.Last.Error()
			}
			out.Pipelines = append(out.Pipelines, p)
		}
	}
	return out
}

// memory is how many bytes this process holds of its machine.
func memory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// Heartbeat is a loop that says to other instances that this one is there.
func (a *API) Heartbeat() flow.Loop {
	return flow.Loop{Name: "instances", Every: instance.Beat, AtStart: true, Do: func(ctx context.Context) error {
		return errors.Join(a.Beat(ctx), a.This.Store.Sweep(ctx))
	}}
}

// Beat says to other instances that this one is there, and how it stands.
func (a *API) Beat(ctx context.Context) error {
	a.beaten.Store(true)
	return a.This.Store.Beat(ctx, a.here())
}

// leaveWithin is how long a stop waits to say so.
const leaveWithin = time.Second

// leave says that this instance has ended.
func (a *API) leave() error {
	if !a.beaten.Swap(false) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	last := a.here()
	last.Ended = true
	_ = a.This.Store.Beat(ctx, last) // else the others see that it is gone
	return nil
}

func (a *API) instances(ctx context.Context, _ *operation.None) (out api.Instances, err error) {
	now := a.Now()
	out = api.Instances{This: a.This.ID, Instances: []api.Instance{}, AsOf: now.UTC()}
	all := []instance.Instance{a.here()} // as it is now
	if a.This.Store != nil {
		others, err := a.This.Store.List(ctx)
		if err != nil {
			return out, err
		}
		for _, i := range others {
			if i.ID != a.This.ID {
				all = append(all, i)
			}
		}
	}
	for _, i := range all {
		out.Instances = append(out.Instances, shownInstance(&i, now))
	}
	return out, nil
}

func shownInstance(i *instance.Instance, now time.Time) api.Instance {
	out := api.Instance{ID: i.ID, Host: i.Host, Version: i.Version, State: "gone", Started: i.Started.UTC(), Seen: i.Seen.UTC(), Memory: i.Memory, Systems: i.Systems, Pipelines: []api.InstancePipeline{}, Described: i.Described.Applied, Refused: i.Described.Refused}
	switch {
	case i.Ended:
		out.State = "ended"
	case i.Is(now):
		out.State = "there"
	}
	for _, p := range i.Pipelines {
		out.Pipelines = append(out.Pipelines, api.InstancePipeline(p))
	}
	return out
}
