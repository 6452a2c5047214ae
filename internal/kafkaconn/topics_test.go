package kafkaconn

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/testenv"
)

// slowToTell is a broker that does not know a topic in its first answers.
func slowToTell(t *testing.T, topic string, answers int) []string {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	host, text, _ := net.SplitHostPort(fake.ListenAddrs()[0])
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	fake.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		asked := r.(*kmsg.MetadataRequest)
		if answers == 0 || len(asked.Topics) != 1 || *asked.Topics[0].Topic != topic {
			return nil, nil, false
		}
		answers--
		unknown := asked.ResponseKind().(*kmsg.MetadataResponse)
		unknown.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 0, Host: host, Port: int32(port)}}
		unknown.Topics = []kmsg.MetadataResponseTopic{{Topic: &topic, ErrorCode: kerr.UnknownTopicOrPartition.Code}}
		return unknown, nil, true
	})
	return fake.ListenAddrs()
}

// Brokers tell each other of a new topic after they have answered: a client that asks in
// between is told that it does not exist.
func TestATopicIsKnownWhenItIsMade(t *testing.T) {
	brokers := slowToTell(t, "new", 5)
	if testenv.Enabled(t) {
		brokers = testenv.Kafka(t)
	}
	cluster, err := Parse(strings.Join(brokers, ","), Options{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topic := "new"
	for range 20 {
		if err := MakeTopic(t.Context(), client, topic, 1, 0); err != nil {
			t.Fatal(err)
		}
		for _, f := range cluster.Inspect(t.Context(), client, topic) {
			if f.Check == "kafka: topic "+topic && f.Verdict != preflight.OK {
				t.Errorf("%+v", f)
			}
		}
		topic = testenv.Name("new-")
	}
}
