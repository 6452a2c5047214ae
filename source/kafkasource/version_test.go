package kafkasource_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/source/kafkasource"
)

// A key that moves because its topic has more partitions has larger versions at its new place, which
// begins at a smaller offset than it had.
func TestVersionsGrowWhereATopicIsGivenMorePartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	w.number(0, 50)
	s := w.source(kafkasource.Options{})
	newest := uint64(0)
	for _, m := range receive(t, s, 50, 10*time.Second) {
		newest = max(newest, s.Version(m))
		settle(t, s, tidemill.Applied, delivered(m)...)
	}
	s.Kill()
	resp, err := w.admin.CreatePartitions(t.Context(), 1, w.topic)
	if err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	for all := (kadm.TopicDetails{}); len(all[w.topic].Partitions) < 2; { // the broker answers before it shows them
		if all, err = w.admin.ListTopics(t.Context(), w.topic); err != nil {
			t.Fatal(err)
		}
	}
	client, err := w.cluster.Client(kgo.RecordPartitioner(kgo.ManualPartitioner())) // one that never knew how few there were
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for p := range int32(2) {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: w.topic, Partition: p, Value: []byte("new")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s = w.source(kafkasource.Options{Now: func() time.Time { return time.Now().Add(time.Minute) }}) // versions tell minutes apart
	seen := map[uint32]uint64{}
	for _, m := range receive(t, s, 2, 30*time.Second) {
		if seen[m.Mark.Shard] = s.Version(m); s.Version(m) <= newest {
			t.Errorf("partition %d, offset %d: version %d, and it was %d before", m.Mark.Shard, m.Mark.Lo, s.Version(m), newest)
		}
	}
	s.Kill()
	s = w.source(kafkasource.Options{})
	for _, m := range receive(t, s, 2, 30*time.Second) {
		if got := s.Version(m); got != seen[m.Mark.Shard] {
			t.Errorf("partition %d: version %d at the second hand-out, %d at the first", m.Mark.Shard, got, seen[m.Mark.Shard])
		}
	}
}
