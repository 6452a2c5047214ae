package bridgesystem

import (
	"context"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
)

// status says how the bridge stands.
func (w *wiring) status(b *bridge.Bridge, e *ends) func(context.Context) (bridgeapi.Bridge, error) {
	topic := func(name string) string {
		if name == "" {
			return ""
		}
		return bridge.JoinTopic(e.prefix, name)
	}
	dead := ""
	if w.own.DLQ.Enabled {
		dead = w.own.DLQ.Topic
	}
	return func(ctx context.Context) (bridgeapi.Bridge, error) {
		s := b.Stats()
		out := bridgeapi.Bridge{State: b.State().String(), Topic: topic(w.own.MQTT.PublishTopic), AckTopic: topic(w.own.MQTT.AckTopic()), DeadTopic: topic(dead),
			Consumers: []bridgeapi.BridgeConsumer{}, Published: s.Published, Acknowledged: s.Acked, Refused: s.Refused, Dead: s.Dead,
			Unanswered: s.Unanswered.Entries, Example: s.Unanswered.ID}
		err := e.outline(ctx, &out)
		return out, answer.Answerable(err)
	}
}

// outlineOf says how the embedded stream stands.
func outlineOf(s queue.Store) func(context.Context, *bridgeapi.Bridge) error {
	return func(ctx context.Context, out *bridgeapi.Bridge) error {
		st, err := s.Stats(ctx, bridge.Name)
		if err != nil {
			return err
		}
		out.Pending, out.Delayed = st.Leased+st.Delayed, st.Delayed
		out.Length, out.Oldest = st.Waiting+out.Pending, answer.When(st.Oldest)
		return nil
	}
}
