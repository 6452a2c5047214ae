//go:build !embedded

package analyticssystem

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/source/kafkasource"
	"github.com/tidemill/tidemill/systems/analytics"
)

// kafka makes topics what events wait in. Redis and the embedded database keep what they
// have beside: dead letters, locks, limits.
func (w *wiring) kafka(ctx context.Context, b *backends) error {
	c := w.own
	k, err := w.Kafka(ctx, w.Config.Kafka.Brokers)
	if err != nil {
		return err
	}
	topics := map[string]string{analytics.Name: c.Topic, analytics.OverflowName: c.Topic + "-overflow"}
	for _, name := range []string{analytics.Name, analytics.OverflowName} {
		if name == analytics.OverflowName && len(c.Overflow) == 0 {
			continue
		}
		if err := k.Make(ctx, topics[name], w.Config.Kafka.Partitions, 0); err != nil {
			return err
		}
	}
	b.intake, err = kafkasource.NewIntake(k.Client, kafkasource.IntakeOptions{
		Topic: func(queue string) string { return topics[queue] },
		Key: func(m *tidemill.Message) []byte { // of one person: one partition
			return append(append([]byte(m.Tenant), ':'), m.Key...)
		}})
	if err != nil {
		return err
	}
	b.damaged = false
	open := func(name string) (*kafkasource.Source, error) {
		return w.KafkaSource(k, name, topics[name], c.Group, "")
	}
	b.open = func(_ context.Context, name string) (stream, error) {
		s, err := open(name)
		if err != nil {
			return nil, err
		}
		w.OnClose(s.Close)
		return s, nil
	}
	b.waits = func(ctx context.Context, name string) (bool, error) {
		s, err := open(name)
		if err != nil {
			return false, err
		}
		defer s.Close()
		books, err := s.Books(ctx)
		if kafkaconn.NoTopic(err) {
			return false, nil
		}
		return books.Pending > 0, err
	}
	w.Uses = append(w.Uses, fmt.Sprintf("topic: Kafka, %s, %s", k.Cluster, c.Topic))
	return nil
}
