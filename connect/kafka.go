package connect

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/source/kafkasource"
	"github.com/tidemill/tidemill/systems/analytics"
)

// kafka makes topics what events wait in. Redis and the embedded database keep what they
// have beside: dead letters, locks, limits.
func (i *Instance) kafka(ctx context.Context, b *backends) error {
	c := &i.config.Analytics
	cluster, err := kafkaconn.Parse(string(i.config.Kafka.Brokers), kafkaconn.Options{})
	if err != nil {
		return err
	}
	client, err := cluster.Client(kafkasource.Producer()...)
	if err != nil {
		return err
	}
	i.close = append(i.close, func() error { client.Close(); return nil })
	if err := client.Ping(ctx); err != nil {
		return kafkaconn.Error(err, "connect to Kafka at %s", cluster)
	}
	topics := map[string]string{analytics.Name: c.Topic, analytics.OverflowName: c.Topic + "-overflow"}
	for _, name := range []string{analytics.Name, analytics.OverflowName} {
		if name == analytics.OverflowName && len(c.Overflow) == 0 {
			continue
		}
		if err := kafkaconn.MakeTopic(ctx, client, topics[name], i.config.Kafka.Partitions, 0); err != nil {
			return err
		}
	}
	b.intake, err = kafkasource.NewIntake(client, kafkasource.IntakeOptions{
		Topic: func(queue string) string { return topics[queue] },
		Key: func(m *tidemill.Message) []byte { // of one person: one partition
			return append(append([]byte(m.Tenant), ':'), m.Key...)
		}})
	if err != nil {
		return err
	}
	b.damaged = nil
	open := func(name string) (*kafkasource.Source, error) {
		return i.kafkaSource(cluster, name, topics[name], c.Group, "")
	}
	b.open = func(_ context.Context, name string) (stream, error) {
		s, err := open(name)
		if err != nil {
			return nil, err
		}
		i.close = append(i.close, s.Close)
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
	b.inspect = append(b.inspect, func(ctx context.Context) []preflight.Finding { return cluster.Inspect(ctx, client, c.Topic) })
	i.Uses = append(i.Uses, fmt.Sprintf("topic: Kafka, %s, %s", cluster, c.Topic))
	return nil
}

// kafkaSource is a pipeline's member of a consumer group; instance: it keeps its name over
// restarts, empty: it has none. Who opens it closes it.
func (i *Instance) kafkaSource(cluster *kafkaconn.Cluster, pipeline, topic, group, instance string) (*kafkasource.Source, error) {
	reports, log := i.sourceReports(), i.options.Log
	onLost := kafkasource.Stop
	if i.config.Kafka.OnLost == "continue" {
		onLost = kafkasource.Continue
	}
	return kafkasource.New(cluster, topic, group, kafkasource.Options{Instance: instance, OnLost: onLost, Log: log, Now: i.options.Now, Lost: func(l kafkasource.Loss) {
		reports.WithLabelValues(pipeline, "lost").Add(float64(l.Records))
		log.Warn("records are gone that were not settled", "pipeline", pipeline, "topic", l.Topic, "partition", l.Partition,
			"from", l.From, "to", l.To, "records", l.Records, "cause", l.Cause, "counted", l.Counted)
	}})
}
