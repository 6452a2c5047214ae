package bullmqsource

import (
	"context"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/sourcetest"
)

// Most of these tests wait for leases to end: many may do so at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const testLease = 2 * time.Second

// accept adds jobs as BullMQ lays them down, with any bytes: BullMQ itself takes JSON only.
func accept(t *testing.T, client rueidis.Client, base string, ms []*tidemill.Message) {
	t.Helper()
	commands := make(rueidis.Commands, 0, 2*len(ms)+1)
	for _, m := range ms {
		commands = append(commands, client.B().Hset().Key(base+m.ID).FieldValue().FieldValue("name", m.Type).FieldValue("data", string(m.Payload)).
			FieldValue("opts", `{"attempts":1000}`).FieldValue("timestamp", strconv.FormatInt(m.Time.UnixMilli(), 10)).
			FieldValue("delay", "0").FieldValue("priority", "0").Build(),
			client.B().Lpush().Key(base+"wait").Element(m.ID).Build())
	}
	commands = append(commands, client.B().Zadd().Key(base+"marker").ScoreMember().ScoreMember(0, "0").Build())
	for _, res := range client.DoMulti(t.Context(), commands...) {
		if err := res.Error(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // the server is everybody's
		keys := []string{base + "meta", base + "wait", base + "active", base + "delayed", base + "completed", base + "failed", base + "stalled", base + "events", base + "marker"}
		for _, m := range ms {
			keys = append(keys, base+m.ID, base+m.ID+":lock")
		}
		_ = client.Do(context.Background(), client.B().Del().Key(keys...).Build()).Error()
	})
}

func TestContract(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		sourcetest.RunLive(t, 1, func(t *testing.T) sourcetest.Harness {
			t.Parallel()
			o := Options{Queue: testenv.Name("source"), Prefix: "{bull}", Lease: testLease, MaxStalled: 100, DeadLetters: true}
			return sourcetest.Harness{
				Accept: func(ms ...*tidemill.Message) { accept(t, client, o.Prefix+":"+o.Queue+":", ms) },
				Open: func() tidemill.Source {
					s, err := New(client, o)
					if err != nil {
						t.Fatal(err)
					}
					return s
				},
				Kill: func() {}, Lease: testLease, Keeps: sourcetest.Fields{ID: true, Type: true, Time: true}, ByID: true,
			}
		})
	})
}
