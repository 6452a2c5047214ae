package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/aside"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/stream"
)

// beat is how often a stream says that it is there.
const beat = 15 * time.Second

// streaming is what the API shows live.
func (a *API) streaming() Room {
	return Room{Does: []operation.Handler{api.GetStream.By(a.stream)}}
}

func newHub(now func() time.Time) *stream.Hub {
	return stream.New(stream.Options{Now: now, Failed: func(topic string, err error) any {
		name, _, _ := strings.Cut(topic, "\x00")
		return api.StreamEvent{Topic: name, Problem: err.Error()}
	}})
}

// stream sends what is new of topics, until the client goes, its rights end with its context, or this
// instance stops.
func (a *API) stream(ctx context.Context, q *api.StreamOf, out *operation.EventWriter) error {
	topics, may, whose := map[string]stream.Read{}, sightOf(ctx), ""
	if some := may.some(); some != "" { // others see another state of it
		whose = "\x00" + some
	}
	for _, name := range q.Topic {
		read, err := a.topic(ctx, name)
		if err != nil {
			return err
		}
		topics[name+whose] = func(ctx context.Context) (any, error) {
			e, err := read(aside.Reading(withSight(ctx, may)))
			e.Topic = name
			return e, err
		}
	}
	v, err := a.hub.Join(topics, out.Last)
	if errors.Is(err, stream.ErrFull) {
		p := operation.Refuse(http.StatusServiceUnavailable, "%v", err)
		p.After = 10
		return p
	}
	if err != nil {
		return operation.Refuse(http.StatusBadRequest, "%v", err)
	}
	defer v.Leave()
	if err := out.Begin(); err != nil {
		return err
	}
	return a.follow(ctx, v, out)
}

// follow sends events as they come.
func (a *API) follow(ctx context.Context, v *stream.Viewer, out *operation.EventWriter) error {
	var stopping <-chan struct{}
	if a.Stopping != nil {
		stopping = a.Stopping.Done()
	}
	pulse := time.NewTicker(beat)
	defer pulse.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-stopping:
			return nil
		case <-pulse.C:
			if err := out.Comment(); err != nil {
				return err
			}
		case <-v.Changed():
			for _, e := range v.Next() {
				name, _, _ := strings.Cut(e.Topic, "\x00")
				kind, _, _ := strings.Cut(name, ":")
				if err := out.Send(e.ID, kind, e.Data); err != nil {
					return err
				}
			}
		}
	}
}

// withRights is a context that knows whether its caller is still the one who came in.
func (a *API) withRights(ctx context.Context, r *http.Request, who caller.Caller) context.Context {
	return operation.WithRights(ctx, func() bool {
		is, err := a.guard.Caller(r)
		if p, ok := errors.AsType[*operation.Problem](err); ok {
			return p.Status >= http.StatusInternalServerError // the store that knows it is away
		}
		return err == nil && is.Name == who.Name && is.Rights == who.Rights && is.Payloads == who.Payloads
	})
}

// topic is how a topic is read.
func (a *API) topic(ctx context.Context, name string) (func(context.Context) (api.StreamEvent, error), error) {
	kind, of, _ := strings.Cut(name, ":")
	switch {
	case name == "overview":
		return func(ctx context.Context) (e api.StreamEvent, err error) {
			o, err := a.overview(ctx, nil)
			o.AsOf = time.Time{} // that it is later is no news, here and below
			for i := range o.Systems {
				o.Systems[i].AsOf = nil
			}
			e.Overview = &o
			return e, err
		}, nil
	case name == "dead" && a.deadLetters().Missing == "":
		return func(ctx context.Context) (e api.StreamEvent, err error) {
			g, err := a.groups(ctx, &api.GroupsOf{})
			g.AsOf = time.Time{}
			e.Dead = &g
			return e, err
		}, nil
	case kind == "live" && a.Fates != nil:
		return a.liveTopic(ctx, of)
	case (kind == "queue" || kind == "partner") && a.Queues != nil:
		if kind == "partner" {
			of = strings.TrimPrefix(a.seriesOf(name), queueSeries)
		}
		return a.queueTopic(of), a.hasQueue(ctx, of)
	case kind == "pipeline":
		if e := a.engine(of); e != nil && sightOf(ctx).of(a.systemOf(of)) {
			return func(context.Context) (api.StreamEvent, error) {
				s := statusOf(e)
				return api.StreamEvent{Pipeline: &s}, nil
			}, nil
		}
	}
	return nil, operation.Refuse(http.StatusNotFound, "there is no topic %.120q here: there are overview, dead, live, queue:NAME, partner:NAME and pipeline:NAME", name)
}

func (a *API) queueTopic(name string) func(context.Context) (api.StreamEvent, error) {
	return func(ctx context.Context) (e api.StreamEvent, err error) {
		q, err := a.statusOfQueue(ctx, name)
		q.Settings, q.Age = nil, 0 // when the oldest was added is there
		e.Queue, e.Rates = &q, a.ratesOf(queueSeries+name)
		return e, err
	}
}

// engine is the pipeline of a name; nil: none runs here.
func (a *API) engine(name string) *flow.Engine {
	for _, s := range a.systems() {
		for _, e := range s.Pipelines {
			if e.Name() == name {
				return e
			}
		}
	}
	return nil
}
