package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

func TestASessionAboutQueues(t *testing.T) {
	s := newSession(t)
	s.types("queue list", "No queues.")
	if _, err := s.queues.Set(t.Context(), "q", func(q *queue.Settings) { q.Failed.Count, q.Completed.Count = 5, 5 }); err != nil {
		t.Fatal(err)
	}
	s.add("e1/p", "e2/p", "e3/p", "e4/p", "e5/p")
	src := s.queues.Open("q", queue.Options{})
	out := []*tidemill.Message{{}, {}, {}, {}}
	if n, err := src.Receive(t.Context(), out); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	if err := src.Settle(t.Context(), []tidemill.Settlement{
		{ID: "e1/p", Mark: out[0].Mark, End: tidemill.Again, CountTry: true, After: time.Minute, Kind: tidemill.Timeout, Cause: "no answer\x1b[2J"},
		{ID: "e2/p", Mark: out[1].Mark, Fate: tidemill.Dead, Cause: "refused"},
		{ID: "e3/p", Mark: out[2].Mark, Fate: tidemill.Delivered},
	}); err != nil {
		t.Fatal(err)
	}
	s.types("queue list", `
~QUEUE +STATE +WAITING +DELAYED +RUNNING +COMPLETED +FAILED +OLDEST
~q +open +1 +1 +1 +1 +1 +\S+
`)
	s.types("queue stats q", `
queue                 q, open
waiting               1
delayed               1
running               1
completed             1, kept
failed                1, kept
~oldest +\S+
~priority 0 +1 waiting, the oldest for \S+
~tenant shop +1 waiting, the oldest for \S+
limit                 none
limit of each tenant  none
limit of each key     none
weights               each priority 4 times the one below
who takes turns       tenants
completed jobs kept   the last 5
failed jobs kept      the last 5
`)
	s.types("queue jobs q", `
ID    TENANT  TYPE      STATE    PRIORITY  TRIES  ADDED                 DUE                   CAUSE
e1/p  shop    purchase  delayed  0         1      2026-03-01T12:00:00Z  2026-03-01T12:01:00Z  no answer`+"<U+001B>"+`[2J
e4/p  shop    purchase  leased   0         0      2026-03-01T12:00:00Z  -
e5/p  shop    purchase  waiting  0         0      2026-03-01T12:00:00Z  -
`)
	s.types("queue jobs q --order newest -n 1", `
ID    TENANT  TYPE      STATE    PRIORITY  TRIES  ADDED                 DUE  CAUSE
e5/p  shop    purchase  waiting  0         0      2026-03-01T12:00:00Z  -
`)
	s.types("queue jobs q --state failed --json", `~\{"queue":"q","id":"e2/p",.*"fate":"dead","cause":"refused".*`)
	s.types("queue jobs q --tenant blog", "No such jobs.")
	s.types("queue show q e1/p", `
job         e1/p
queue       q
tenant      shop
type        purchase
state       delayed
priority    0
key
handed out  1 times
added       2026-03-01T12:00:00Z
due         2026-03-01T12:01:00Z
tried       2026-03-01T12:00:00Z  timeout  no answer`+"<U+001B>"+`[2J

payload of e1/p
`)
	s.types("queue show q e2/p --tenant shop --json", `~.*"state":"failed".*`)
	s.fails("queue show q nix", "there is no job nix in queue q")
	s.fails("queue stats nix", `there is no queue "nix"; there are q`)
	if status, out, errs := s.run(t.Context(), "mended", "queue edit q e1/p"); status != 0 || out != "Job e1/p is edited: 6 bytes.\n" {
		t.Errorf("queue edit: %d %s%s", status, out, errs)
	}
	s.types("queue show q e1/p --payload", "mended")

	s.types("queue retry q --all --dry-run", "1 job would be waiting again.")
	s.types("queue retry q e2/p", "1 job waiting again.")
	s.types("queue promote q --type purchase", "1 job due now.")
	s.types("queue remove q --state delayed", "0 jobs removed.")
	s.types("queue remove q --tenant shop -n 1 --json", `{"count":1}`)
	s.types("queue clean q --until 2026-03-02T00:00:00Z", "1 job forgotten.")
	s.types("queue pause q", "q is paused: 2 waiting, 0 delayed, 1 running.")
	s.fails("queue drain q --wait", "is paused and never gets empty")
	s.types("queue resume q", "q is open: 2 waiting, 0 delayed, 1 running.")
	s.types("queue drain q --json", `~\{"name":"q",.*"closed":true.*\}`)
	s.types("queue list", `
~QUEUE .*
~q +draining +2 .*
`)
}

func TestAQueueIsWaitedForUntilItIsEmpty(t *testing.T) {
	s := newSession(t)
	s.add("e1", "e2")
	done := make(chan error, 1)
	go func() { // a worker, once the queue is closed
		src := s.queues.Open("q", queue.Options{})
		for {
			is, err := s.queues.Settings(s.Context(), "q")
			if err != nil || is.Closed {
				break
			}
		}
		for range 2 {
			m := []*tidemill.Message{{}}
			if _, err := src.Receive(s.Context(), m); err != nil {
				done <- err
				return
			}
			if err := src.Settle(s.Context(), []tidemill.Settlement{{ID: m[0].ID, Mark: m[0].Mark, Fate: tidemill.Delivered}}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	status, out, errs := s.run(t.Context(), "", "queue drain q --wait")
	if status != 0 || !strings.Contains(out, "q is drained") {
		t.Errorf("exit status %d: %s%s", status, out, errs)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.types("queue drain q --wait", "q is drained: 0 waiting, 0 delayed, 0 running.")
}

func TestLimitsOfAQueueAreChangedOneByOne(t *testing.T) {
	s := newSession(t)
	s.add("e1")
	for _, c := range []struct{ flags, want string }{
		{"--rate 100/s --burst 20 --at-once 50", `{"limit":{"per_second":100,"burst":20,"at_once":50}}`},
		{"--rate 30/m", `{"limit":{"per_second":0.5,"burst":20,"at_once":50}}`},
		{"--each-tenant --rate 10", `{"limit":{"per_second":0.5,"burst":20,"at_once":50},"tenant":{"per_second":10}}`},
		{"--none --tenant shop", `{"limit":{"per_second":0.5,"burst":20,"at_once":50},"tenant":{"per_second":10}}`},
		{"--none", `{"tenant":{"per_second":10}}`},
		{"--tenant shop --at-once 2", `{"tenant":{"per_second":10},"tenants":{"shop":{"at_once":2}}}`},
		{"--each-key --rate 3600/h --each-key", `{"tenant":{"per_second":10},"tenants":{"shop":{"at_once":2}},"key":{"per_second":1}}`},
		{"--tenant shop --none --weight 3=64,0=2", `{"weights":{"0":2,"3":64},"tenant":{"per_second":10},"key":{"per_second":1}}`},
		{"--weight 3=0 --fair keys --keep-completed 7 --keep-failed 3 --keep-for 24h", `{"weights":{"0":2},"fair":"keys","tenant":{"per_second":10},"key":{"per_second":1},"completed":{"count":7,"age":86400000000000},"failed":{"count":3,"age":86400000000000}}`},
		{"--fair tenants --keep-failed 0", `{"weights":{"0":2},"tenant":{"per_second":10},"key":{"per_second":1},"completed":{"count":7,"age":86400000000000},"failed":{"age":86400000000000}}`},
	} {
		s.types("queue limits q --json "+c.flags, c.want)
	}
	s.types("queue limits q --rate 30/m --at-once 4", `
limit                 30 a minute, 4 running at a time
limit of each tenant  10 a second
limit of each key     1 a second
weights               2 of priority 0
who takes turns       tenants
completed jobs kept   the last 7, for 24h0m0s
failed jobs kept      none
`)
	s.fails("queue limits q --at-once=-1", "want no negative number")
	s.fails("queue limits q --at-once 5 --if-match other", "changed since they were read")
}
