package redisqueue

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// Names are forgotten also where hardly anybody adds jobs, but those of jobs that are there.
func TestNamesOfQuietQueues(t *testing.T) {
	for name, each := range map[string]int{"once in half a day": 1, "now and then": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ahead := new(atomic.Int64)
			b := newTable(t, redistest.Connect(t, testenv.Redis(t)), Options{ahead: func() time.Duration { return time.Duration(ahead.Load()) }})
			src := b.Open("q", queue.Options{})
			b.add(&tidemill.Message{ID: "stays", To: "q", At: time.Now().Add(1000 * time.Hour)})
			at, halfDay := 0, 12*time.Hour
			for range 30 {
				for range each {
					b.add(numbered(at, 1)...)
					at++
					ahead.Add(int64(halfDay) / int64(each))
				}
				b.deliver(src, b.take(src, each)...)
			}
			names, err := b.client.Do(t.Context(), b.client.B().Hget().Key(b.tags[0]+"1:meta").Field("names").Build()).ToString()
			if n := len(strings.Fields(names)) / 4; err != nil || n > 6 {
				t.Errorf("names of %d half days are kept, %v", n, err)
			}
			keys, err := b.client.Do(t.Context(), b.client.B().Keys().Pattern(b.tags[0]+"1:n*").Build()).AsStrSlice()
			if most := 6*each + 1; err != nil || len(keys) > most {
				t.Errorf("names are in %d hashes, %v; want %d at the most", len(keys), err, most)
			}
			added := make([]queue.Added, 2)
			known := []*tidemill.Message{{ID: "stays", To: "q"}, numbered(at-each, 1)[0]}
			if err := b.Add(t.Context(), known, added); err != nil || added[0] != queue.Known || added[1] != queue.Known {
				t.Errorf("a job that is there, and one of half a day ago, became %v, %v; want both known", added, err)
			}
			if err := b.Add(t.Context(), numbered(0, 1), added[:1]); err != nil || added[0] != queue.New {
				t.Errorf("a name of half a month ago became %v, %v; want it new", added[0], err)
			}
		})
	}
}
