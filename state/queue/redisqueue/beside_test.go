package redisqueue

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// counting is a part that is told a name of each request: it refuses "no", and counts the
// others.
const counting = `
local names = {}
known = function(at, n)
  local no = {}
  for r = 1, n do
    names[r] = ARGV[at + r - 1]
    no[r] = names[r] == 'no'
  end
  return no
end
keep = function(taken)
  for r, name in ipairs(names) do
    if taken[r] == '1' then redis.call('HINCRBY', KEYS[2], name, 1) end
  end
end
`

func TestJobsBesideOthersAllOrNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		prefix := testenv.Name("q")
		s, err := New(client, Options{Prefix: prefix, Capacity: 3})
		if err != nil {
			t.Fatal(err)
		}
		counts := prefix + ":counts"
		b := s.Beside(redisconn.Part{Lua: counting, Keys: []string{counts}, Args: func() []string { return nil }})
		if client.Mode() == rueidis.ClientModeCluster {
			if b != nil {
				t.Error("a cluster has a stroke for keys of any slot")
			}
			return
		}
		if _, err := s.Set(t.Context(), "closed", func(set *queue.Settings) { set.Closed = true }); err != nil {
			t.Fatal(err)
		}
		job := func(to, id string) *tidemill.Message {
			return &tidemill.Message{To: to, ID: id, Tenant: "t", Payload: []byte(id)}
		}
		late := job("a", "late")
		late.At = time.Now().Add(time.Hour)
		for _, c := range []struct {
			name string
			jobs []*tidemill.Message
			want bool
		}{
			{"one", []*tidemill.Message{job("a", "1")}, true},
			{"no", []*tidemill.Message{job("a", "2")}, false},
			{"closed", []*tidemill.Message{job("b", "3"), job("closed", "4")}, false},
			{"known", []*tidemill.Message{job("a", "1"), job("b", "5")}, true},
			{"full", []*tidemill.Message{job("b", "6"), job("a", "7"), job("a", "8"), job("a", "9")}, false},
			{"late", []*tidemill.Message{late}, true},
		} {
			got, err := b.Add(t.Context(), []string{c.name}, c.jobs)
			if err != nil || got != c.want {
				t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
			}
			n, err := client.Do(t.Context(), client.B().Hexists().Key(counts).Field(c.name).Build()).AsBool()
			if err != nil || n != c.want {
				t.Errorf("%s: the part did its work: %v, %v; want %v", c.name, n, err, c.want)
			}
		}
		var all []string
		for _, q := range []string{"a", "b", "closed"} {
			for j, err := range s.List(t.Context(), queue.Filter{Queue: q}) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, q+" "+j.ID+" "+string(j.State))
			}
		}
		if want := []string{"a 1 waiting", "a late delayed", "b 5 waiting"}; !slices.Equal(all, want) {
			t.Errorf("jobs %q; want %q", all, want)
		}
	})
}
