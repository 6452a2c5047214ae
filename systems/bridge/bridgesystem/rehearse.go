package bridgesystem

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconfig"
)

// unsent is the sink of a bridge that does not run.
type unsent struct{}

func (unsent) Write(context.Context, []*tidemill.Message) error { return nil }

// rehearse says on which topic entries would be published, and as what. What a request says beside are
// further fields of the entry, whose payload is the event.
func rehearse(r *system.Rehearsing) (system.Rehearsal, error) {
	w := &wiring{Host: &system.Host{Config: r.Config, Now: r.Now, Log: slog.New(slog.DiscardHandler)}, own: bridgeconfig.Of(r.Config), log: slog.New(slog.DiscardHandler)}
	if err := w.own.Check(); err != nil {
		return nil, err
	}
	_, _, prefix, err := mqttOf(w.own, w.log)
	if err != nil {
		return nil, err
	}
	b, err := bridge.New(bridge.Parts{Source: memoryqueue.New(memoryqueue.Options{Now: r.Now}).Open(bridge.Name, queue.Options{}), Sink: unsent{}}, w.options(prefix))
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, events []system.Incoming) ([][]system.End, error) {
		all := make([][]system.End, len(events))
		for i := range events {
			all[i] = entryEnds(b, &events[i], fmt.Sprintf("%d-0", i+1))
		}
		return all, nil
	}, nil
}

// entryEnds is what becomes of an entry under an id.
func entryEnds(b *bridge.Bridge, in *system.Incoming, id string) []system.End {
	m := &tidemill.Message{ID: id, Payload: in.Body}
	for _, name := range slices.Sorted(maps.Keys(in.With)) {
		m.Header = append(m.Header, tidemill.Field{Name: []byte(name), Value: []byte(in.With[name])})
	}
	if len(m.Header) > 0 && m.Get("payload") == nil {
		m.Header = append(m.Header, tidemill.Field{Name: []byte("payload"), Value: in.Body})
	}
	is := b.Rehearse(m)
	ends := []system.End{{At: system.Itself, End: system.EndOf(is.Fate, is.Why)}}
	if is.Fate == tidemill.Delivered {
		ends = append(ends, system.End{At: "topic " + is.Topic, End: ends[0].End, Output: is.Payload})
	}
	return ends
}
