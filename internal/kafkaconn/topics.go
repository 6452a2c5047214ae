package kafkaconn

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemill/tidemill/internal/sleep"
)

// MakeTopic makes a topic with so many partitions and replicas, 0 being the broker's default,
// if it does not exist. If brokers are slow to tell each other of a new one, it waits for that.
func MakeTopic(ctx context.Context, client *kgo.Client, topic string, partitions, replicas int) error {
	if replicas == 0 {
		replicas = -1
	}
	_, err := kadm.NewClient(client).CreateTopic(ctx, int32(partitions), int16(replicas), nil, topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	if err != nil {
		return Error(err, "make the topic %s with %d partitions", topic, partitions)
	}
	return known(ctx, client, topic)
}

// knownWithin is how long MakeTopic waits until a new topic is known. A user of a topic that is
// not known yet notices, and tries again.
const knownWithin = 5 * time.Second

// known waits until a new topic is known.
func known(ctx context.Context, client *kgo.Client, topic string) error {
	ask := kmsg.NewPtrMetadataRequest()
	ask.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	over := time.Now().Add(knownWithin)
	for wait := 5 * time.Millisecond; time.Now().Before(over); wait = min(2*wait, 200*time.Millisecond) {
		answer, err := ask.RequestWith(ctx, client)
		if err == nil && len(answer.Topics) == 1 && answer.Topics[0].ErrorCode == 0 {
			return nil
		}
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// NoTopic reports whether an error says that a topic does not exist.
func NoTopic(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}
