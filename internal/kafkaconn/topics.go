package kafkaconn

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// MakeTopic makes a topic with so many partitions and replicas, 0 being the broker's default,
// if it is not there. Where brokers are slow to tell each other of a new one, it waits for that.
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

// knownWithin is how long is waited until a new topic is known. Whoever uses one that is not
// yet finds that out, and tries again.
const knownWithin = 5 * time.Second

// known waits until a topic that was made is known.
func known(ctx context.Context, client *kgo.Client, topic string) error {
	ask := kmsg.NewPtrMetadataRequest()
	ask.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	over := time.Now().Add(knownWithin)
	for wait := 5 * time.Millisecond; time.Now().Before(over); wait = min(2*wait, 200*time.Millisecond) {
		answer, err := ask.RequestWith(ctx, client)
		if err == nil && len(answer.Topics) == 1 && answer.Topics[0].ErrorCode == 0 {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// NoTopic says whether an error is that there is no such topic.
func NoTopic(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}
