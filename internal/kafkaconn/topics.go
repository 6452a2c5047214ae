package kafkaconn

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// MakeTopic makes a topic with so many partitions and replicas, 0 being the broker's default,
// if it is not there.
func MakeTopic(ctx context.Context, client *kgo.Client, topic string, partitions, replicas int) error {
	if replicas == 0 {
		replicas = -1
	}
	_, err := kadm.NewClient(client).CreateTopic(ctx, int32(partitions), int16(replicas), nil, topic)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return Error(err, "make the topic %s with %d partitions", topic, partitions)
}

// NoTopic says whether an error is that there is no such topic.
func NoTopic(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}
