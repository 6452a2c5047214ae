package redisqueue

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// counting is a part that knows "no", and adds texts, which are numbers, to names.
const counting = `
known = function(own, names, n)
  local found = {}
  for i = 1, n do found[i] = ARGV[names + i - 1] == ARGV[own] end
  return found
end
keep = function(names, texts, n, no)
  for i = 0, n - 1 do
    if not no or not no[i + 1] then redis.call('HINCRBY', KEYS[2], ARGV[names + i], ARGV[texts + i]) end
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
		b := s.Beside(redisconn.Part{Lua: counting, Keys: []string{counts}, Args: func() []string { return []string{"no"} }})
		if client.Mode() == rueidis.ClientModeCluster {
			if b != nil {
				t.Error("a cluster has a transaction for keys of any slot")
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
			{"known", []*tidemill.Message{job("a", "1")}, false},
			{"one known of two", []*tidemill.Message{job("b", "5"), job("a", "1")}, false},
			{"another", []*tidemill.Message{job("b", "5")}, true},
			{"full", []*tidemill.Message{job("b", "6"), job("a", "7"), job("a", "8"), job("a", "9")}, false},
			{"late", []*tidemill.Message{late}, true},
		} {
			got, err := b.Add(t.Context(), []string{c.name}, []string{"1"}, c.jobs)
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

// Requests of one script: in their order, as far as there is room, none with a name that one
// before it has, and whatever becomes of one is no matter of the others.
func TestRequestsOfOneScript(t *testing.T) {
	testenv.Need(t)
	client := redistest.Connect(t, testenv.Redis(t))
	prefix := testenv.Name("q")
	s, err := New(client, Options{Prefix: prefix, Capacity: 3})
	if err != nil {
		t.Fatal(err)
	}
	counts := prefix + ":counts"
	b := s.Beside(redisconn.Part{Lua: counting, Keys: []string{counts}, Args: func() []string { return []string{"no"} }})
	if _, err := s.Set(t.Context(), "closed", func(set *queue.Settings) { set.Closed = true }); err != nil {
		t.Fatal(err)
	}
	call := func(names []string, ids ...string) *besideCall {
		c := &besideCall{names: names, jobs: make([]besideJob, len(ids))}
		for range names {
			c.texts = append(c.texts, "1")
		}
		for i, id := range ids {
			c.jobs[i].queue, id, _ = strings.Cut(id, " ")
			s.appendJob(c.jobs[i].args[:0], nil, &tidemill.Message{ID: id, Tenant: "t"}, packer{}, 1)
		}
		return c
	}
	for _, step := range []struct {
		calls []*besideCall
		want  string // of each: 1 it was taken
		jobs  []string
	}{
		{[]*besideCall{call([]string{"a"}, "q 1"), call([]string{"b", "c"}, "q 2", "r 1")}, "11", []string{"q 1", "q 2", "r 1"}},
		{[]*besideCall{
			call([]string{"d", "no"}, "r 2"), call([]string{"e"}, "q 3"), call([]string{"f"}, "q 4"), // for which there is no room
			call([]string{"g", "e"}, "r 3"), call([]string{"h"}, "closed 1", "r 4"), call([]string{"i"}, "r 5"), call(nil, "r 6"), call([]string{"j"}, "r 7"),
		}, "01000110", []string{"q 1", "q 2", "q 3", "r 1", "r 5", "r 6"}},
	} {
		if err := b.send(t.Context(), slices.Clone(step.calls)); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range step.calls {
			got += map[bool]string{true: "1", false: "0"}[c.taken]
			for _, name := range c.names {
				n, err := client.Do(t.Context(), client.B().Hexists().Key(counts).Field(name).Build()).AsBool()
				if err != nil || n != c.taken && name != "e" {
					t.Errorf("%s: kept %v, %v; want %v", name, n, err, c.taken)
				}
			}
		}
		if got != step.want {
			t.Errorf("taken %s; want %s", got, step.want)
		}
		var all []string
		for _, q := range []string{"closed", "q", "r"} {
			for j, err := range s.List(t.Context(), queue.Filter{Queue: q}) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, q+" "+j.ID)
			}
		}
		if !slices.Equal(all, step.jobs) {
			t.Errorf("jobs %q; want %q", all, step.jobs)
		}
	}
}
