package redissource

import (
	"flag"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/queue"
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

func TestContract(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		sourcetest.RunLive(t, 1, func(t *testing.T) sourcetest.Harness {
			t.Parallel()
			stream := testenv.Name("source")
			var opened atomic.Int64
			in := NewIntake(client, IntakeOptions{})
			return sourcetest.Harness{
				Accept: func(ms ...*tidemill.Message) {
					for _, m := range ms {
						m.To = stream
					}
					added := make([]queue.Added, len(ms))
					if err := in.Add(t.Context(), ms, added); err != nil {
						t.Fatal(err)
					}
					for i, a := range added {
						if a != queue.New {
							t.Fatalf("message %d became %d, want new", i, a)
						}
					}
				},
				Open: func() tidemill.Source {
					s, err := New(client, Options{Stream: stream, Consumer: "c" + strconv.FormatInt(opened.Add(1), 10), Lease: testLease})
					if err != nil {
						t.Fatal(err)
					}
					return s
				},
				Kill: func() {}, Lease: testLease, Keeps: sourcetest.AllFields,
			}
		})
	})
}
