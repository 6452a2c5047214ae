//go:build !embedded

package windowssystem

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/sink/kafkasink"
	"github.com/tidemill/tidemill/source/kafkasource"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// transactions is a window in a transaction.
type transactions struct{ *kafkasink.Transactions }

// Begin implements windows.Out.
func (t transactions) Begin(ctx context.Context) (windows.Delivery, error) {
	x, err := t.Transactions.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Whole implements windows.Out.
func (t transactions) Whole() bool { return true }

// onKafka makes topics of Kafka what records come from, go to and are indexed of.
func (h *wiring) onKafka(ctx context.Context, s *stores) error {
	w, address := h.own, h.own.Brokers()
	t := &w.Topics
	k, err := h.Kafka(ctx, address)
	if err != nil {
		return err
	}
	if err := h.makeTopics(ctx, s, k); err != nil {
		return err
	}
	sink, err := kafkasink.New(k.Cluster, kafkasink.Options{})
	if err != nil {
		return err
	}
	h.OnClose(func() error { sink.Close(); return nil })
	s.topics.out = windows.Each(sink)
	if w.Transactional {
		all, err := kafkasink.NewTransactions(k.Cluster, kafkasink.TransactionOptions{ID: w.Service + "-" + h.owner(), AtOnce: w.AtOnce, Timeout: w.Transaction})
		if err != nil {
			return err
		}
		h.OnClose(func() error { all.Close(); return nil })
		s.topics.out = transactions{all}
	}
	for _, in := range []struct {
		name, topic string
		kind        record.Kind
	}{{eventsIntake, t.AdapterEvent, record.Event}, {mentionsIntake, t.AdapterMention, record.Mention}} {
		source, err := h.member(k, in.name, in.topic, w.Service+groupSuffix)
		if err != nil {
			return err
		}
		s.topics.intakes = append(s.topics.intakes, windows.Intake{Name: in.name, Source: source, Kind: in.kind})
	}
	s.topics.readers = h.readers(s)
	for n := range s.topics.readers {
		r := &s.topics.readers[n]
		r.Copies = sink
		topic := t.ProcessorEvent
		if r.Dead = t.IndexDead.Event; r.Name == mentionsIndex {
			topic, r.Dead = t.ProcessorMention, t.IndexDead.Mention
		}
		source, err := h.member(k, r.Name, topic, w.Service+indexSuffix)
		if err != nil {
			return err
		}
		r.Source, r.Version = source, source.Version
	}
	h.Uses = append(h.Uses, fmt.Sprintf("topics: Kafka, %s, %s and %s to %s and %s", k.Cluster, t.AdapterEvent, t.AdapterMention, t.ProcessorEvent, t.ProcessorMention))
	return nil
}

// makeTopics makes the topics that are not there.
func (h *wiring) makeTopics(ctx context.Context, s *stores, k *system.Kafka) error {
	t := &h.own.Topics
	names := []string{t.AdapterEvent, t.AdapterMention, t.ProcessorEvent, t.ProcessorMention}
	if t.Results != "" {
		names = append(names, t.Results)
	}
	for _, name := range names {
		if err := k.Make(ctx, name, h.Config.Kafka.Partitions, 0); err != nil {
			return err
		}
	}
	if s.index != nil {
		d := &t.IndexDead
		if err := kafkaconn.MakeTopic(ctx, k.Client, d.Event, d.EventPartitions, d.EventReplicas); err != nil {
			return err
		}
		if err := kafkaconn.MakeTopic(ctx, k.Client, d.Mention, d.MentionPartitions, d.MentionReplicas); err != nil {
			return err
		}
	}
	return nil
}

// member is a member of a consumer group.
func (h *wiring) member(k *system.Kafka, pipeline, topic, group string) (*kafkasource.Source, error) {
	instance := h.own.Instance
	if instance != "" {
		instance += "-" + pipeline // a group has several members of ours, and each is to have a name of its own
	}
	s, err := h.KafkaSource(k, pipeline, topic, group, instance)
	if err != nil {
		return nil, err
	}
	h.OnClose(s.Close)
	return s, nil
}
