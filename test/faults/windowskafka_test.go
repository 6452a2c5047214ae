//go:build servers

package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemill/tidemill/test/process"
)

// kafkaClient opens a client that ends with the test.
func (w *windowsWorld) kafkaClient(opts ...kgo.Opt) *kgo.Client {
	w.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.brokers...), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(c.Close)
	return c
}

// clearServers removes the world's data from servers that all tests share.
func (w *windowsWorld) clearServers() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if w.kafka == nil {
		c, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...))
		if err != nil {
			w.Error(err)
			return
		}
		defer c.Close()
		var names []string
		for _, name := range w.topics {
			names = append(names, name)
		}
		if _, err := kadm.NewClient(c).DeleteTopics(ctx, names...); err != nil {
			w.Logf("delete topics: %v", err)
		}
	}
	if w.search == nil {
		w.deleteIndices(ctx)
	}
}

// windowsMessage is a record of a topic.
type windowsMessage struct {
	key       string
	value     []byte
	headers   map[string]string
	partition int32
	offset    int64
}

// read reads a topic from its beginning to its end, the committed messages or all.
func (w *windowsWorld) read(topic string, committed bool) (all []windowsMessage) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	c := w.kafkaClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100*time.Millisecond))
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		w.Fatalf("topic %s: %v", topic, err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		f := c.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			w.Fatalf("read topic %s up to %v: %v", topic, left, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			m := windowsMessage{string(r.Key), r.Value, map[string]string{}, r.Partition, r.Offset}
			for _, h := range r.Headers {
				m.headers[h.Key] = string(h.Value)
			}
			all = append(all, m)
		})
	}
	return all
}

// groups are the consumer groups of the service.
func (w *windowsWorld) groups() []string { return []string{w.service + "-group", w.service + "-index"} }

// described are the group members according to the brokers, each as group and id.
func (w *windowsWorld) described() (all []string) {
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...))
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	groups, err := kadm.NewClient(c).DescribeGroups(ctx, w.groups()...)
	if err != nil {
		w.Logf("who is in the groups: %v", err)
		return nil
	}
	for _, g := range groups {
		for _, m := range g.Members {
			all = append(all, g.Group+"\x00"+m.MemberID)
		}
	}
	return all
}

// attribute notes the instance of the members that have come since the last instance was
// started.
func (w *windowsWorld) attribute() {
	if len(w.brokers) == 0 || w.last == nil {
		return
	}
	for _, m := range w.described() {
		if !slices.ContainsFunc(w.instances, func(in *process.Instance) bool { return slices.Contains(w.members[in], m) }) {
			w.members[w.last] = append(w.members[w.last], m)
		}
	}
}

// evict removes a killed instance's members from their groups, as the brokers do by themselves
// after a silent session of 45 seconds, which is too long for a test.
func (w *windowsWorld) evict(in *process.Instance) {
	if len(w.brokers) == 0 {
		return
	}
	gone := w.members[in]
	w.members[in] = nil
	if len(w.instances) == 1 {
		gone = w.described() // there are no others
	}
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...))
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	for _, m := range gone {
		group, id, _ := strings.Cut(m, "\x00")
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Group = group
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = id
		r.Members = append(r.Members, member)
		if _, err := r.RequestWith(ctx, c); err != nil {
			w.Logf("take a member out of %s: %v", group, err)
		}
	}
}

// setTopic changes a setting of a topic.
func (w *windowsWorld) setTopic(topic, name, value string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	answers, err := kadm.NewClient(w.kafkaClient()).AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err == nil {
		_, err = answers.On(topic, nil)
	}
	for _, a := range answers {
		if err == nil && a.Err != nil {
			err = fmt.Errorf("%s: %w", a.Name, a.Err)
		}
	}
	if err != nil {
		w.Fatalf("set %s of topic %s: %v", name, topic, err)
	}
}

// deleteTopic deletes a topic with its content.
func (w *windowsWorld) deleteTopic(topic string) {
	w.Helper()
	if _, err := kadm.NewClient(w.kafkaClient()).DeleteTopic(w.Context(), topic); err != nil {
		w.Fatalf("delete topic %s: %v", topic, err)
	}
}

// makeTopic makes a topic as the product does.
func (w *windowsWorld) makeTopic(topic string) {
	w.Helper()
	admin := kadm.NewClient(w.kafkaClient())
	w.until(20*time.Second, "the topic is made", func() bool { // one of that name may still be being deleted
		_, err := admin.CreateTopic(w.Context(), 3, 1, nil, topic)
		return err == nil
	})
}
