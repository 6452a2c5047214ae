package kafkasource_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/source/kafkasource"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/definition/tabledefinition"
	"github.com/tidemill/tidemill/state/lock/tablelock"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/memorywarehouse"
)

// The real system reads what its own ingest API and other programs write into a topic: a
// flat JSON object as the value, flat headers, a native event with what the ingest API knew
// of it. One instance stops in between and another one goes on.
func TestAnalyticsReadsATopic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 3)
	project := uuid.MustParse("33333333-3333-4333-8333-333333333333")
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	events := memorywarehouse.New()
	parts := analytics.Parts{Persons: tableperson.Memory(tableperson.Options{}), Warehouse: events,
		Definitions: tabledefinition.Memory(), DeadLetters: letters, Locks: tablelock.Memory(tablelock.Options{})}
	run := func() (s *kafkasource.Source, stop func()) {
		s = w.source(kafkasource.Options{})
		parts.Source = s
		system, err := analytics.New(parts, analytics.Options{Batch: 100, Age: 20 * time.Millisecond, Replay: -1, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- system.Run(ctx) }()
		return s, func() {
			cancel()
			if err := errors.Join(<-ended, s.Close()); err != nil {
				t.Errorf("the system ended with %v", err)
			}
		}
	}

	write := func(n int) (names []string) {
		name := func(kind string) string {
			names = append(names, fmt.Sprintf("%s %d", kind, n))
			return names[len(names)-1]
		}
		who := fmt.Sprintf("user-%d", n)
		key := []byte(project.String() + ":" + who)
		flat := &kgo.Record{Topic: w.topic, Key: key, Value: fmt.Appendf(nil, `{"project_id":%q,"event_name":%q,"distinct_id":%q,"properties":{"n":%d}}`, project, name("flat"), who, n)}
		headers := &kgo.Record{Topic: w.topic, Key: key, Headers: []kgo.RecordHeader{
			{Key: "project_id", Value: []byte(project.String())}, {Key: "event_name", Value: []byte(name("headers"))}, {Key: "distinct_id", Value: []byte(who)}}}
		junk := &kgo.Record{Topic: w.topic, Key: key, Value: []byte("junk")}
		if err := w.client.ProduceSync(t.Context(), flat, headers, junk).FirstErr(); err != nil {
			t.Fatal(err)
		}
		meta := event.Meta{Format: event.Native, Project: project, Event: uuid.New(), Received: time.Now().UTC()}
		w.add(&tidemill.Message{ID: meta.Event.String(), Tenant: project.String(), Key: key, Time: meta.Received,
			Header:  []tidemill.Field{{Name: []byte(event.MetaHeader), Value: meta.Append(nil)}},
			Payload: fmt.Appendf(nil, `{"event":%q,"distinct_id":%q}`, name("native"), who)})
		return names
	}

	var want []string
	var stop func()
	var s *kafkasource.Source
	for n := range 30 {
		want = append(want, write(n)...)
		if n%10 == 0 {
			if stop != nil {
				stop()
			}
			s, stop = run()
		}
	}
	w.books(s, tidemill.Books{Accepted: 120, Settled: tidemill.Count{Delivered: 90, Dead: 30}})
	stop()
	var got []string
	for e, err := range events.Events(t.Context(), warehouse.Filter{Project: project}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%d rows: %q\nwant %d: %q", len(got), got, len(want), want)
	}
}
