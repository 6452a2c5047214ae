package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
	"github.com/tidemill/tidemill/systems/crm/crmtest"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

func TestASessionAboutTheSyncLog(t *testing.T) {
	s, c := newClub(t)
	s.types("synclog list", "No such events in the sync log.")
	raw := []byte(member("a", "\"x\":\"\x1b[2J\""))
	c.records = []*crm.Record{
		{Tenant: "club", ID: "a", Type: "member.created", State: crm.IsCompleted, Attempts: 2, Created: day, Started: day.Add(time.Minute), Completed: day.Add(2 * time.Minute), Payload: raw},
		{Tenant: "club", ID: "b", Type: "member.updated", State: crm.IsFailed, Kind: "validation", Error: "no\x1b[2J", Attempts: 1, Created: day.Add(24 * time.Hour), Started: day.Add(24 * time.Hour), Failed: day.Add(25 * time.Hour), Payload: raw},
	}
	s.types("synclog list", `
RECEIVED              TENANT  ID  TYPE            STATE      ATTEMPTS  ERROR
2026-03-01T12:00:00Z  club    a   member.created  COMPLETED  2
2026-03-02T12:00:00Z  club    b   member.updated  FAILED     1         validation: no`+"<U+001B>"+`[2J
`)
	s.types("synclog list --since 2026-03-01 --until 2026-03-01 --state completed --json", `~\{"tenant":"club","id":"a",.*`)
	s.types("synclog list --type member.updated -n 5 --tenant club --json", `~\{"tenant":"club","id":"b",.*`)
	s.types("synclog list --since 2026-03-03", "No such events in the sync log.")
	s.fails("synclog list --since soon", "is no time")
	for range 200 {
		c.records = append(c.records, c.records[0])
	}
	if status, out, errs := s.run(t.Context(), "", "synclog list"); status != 0 || strings.Count(out, "\n") != 101 || !strings.Contains(errs, "-n 0 shows all") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	if status, out, errs := s.run(t.Context(), "", "synclog list -n 0"); status != 0 || strings.Count(out, "\n") != 203 || errs != "" {
		t.Errorf("%d %s%s", status, out, errs)
	}

	tried := []queue.Failure{{At: day, Kind: tidemill.Transient, Cause: "answered 503\x1b[2J"}, {At: day.Add(time.Second), Kind: tidemill.Timeout, Cause: "no answer"}}
	m := tidemill.Message{To: crm.Queue, Tenant: "club", ID: "b", Type: "member.updated", Priority: 2, Payload: []byte("{\"id\":\"b\"\x1b}")}
	letter := &deadletter.Letter{Message: m, Seq: 7, Pipeline: crm.Queue, Kind: tidemill.Business, State: deadletter.Held, Replays: 1, History: []deadletter.Failure{{At: day.Add(25 * time.Hour), Kind: tidemill.Business, Cause: "not allowed"}}}
	dead := *c.records[1]
	dead.Kind, dead.Error = "business", "not allowed"
	c.events["club/a"] = &crm.EventStatus{Record: c.records[0], Job: &queue.Job{Message: m, State: queue.Completed, Fate: tidemill.Delivered, Added: day, Ended: day.Add(2 * time.Minute), Failures: tried[:1]}}
	c.events["club/b"] = &crm.EventStatus{Record: &dead, Job: &queue.Job{Message: m, State: queue.Failed, Fate: tidemill.Dead, Added: day, Ended: day.Add(25 * time.Hour), Failures: tried}, Dead: letter}
	late := m
	late.At = day.Add(time.Hour)
	c.events["club/c"] = &crm.EventStatus{Record: &crm.Record{Type: "member.updated", State: crm.IsFailed, Kind: "timeout", Error: "no answer", Attempts: 2, Created: day, Started: day, Failed: day}, Job: &queue.Job{Message: late, State: queue.Delayed, Added: day, Failures: tried}}
	c.events["club/d"] = &crm.EventStatus{Job: &queue.Job{Message: m, State: queue.Waiting, Added: day}}
	c.events["club/e"] = &crm.EventStatus{Record: c.records[1]}
	c.events["club/f"] = &crm.EventStatus{Record: &crm.Record{Type: "x", State: crm.IsFailed, Kind: "skipped", Error: "no handler is for it", Attempts: 1, Created: day, Started: day, Failed: day}}
	c.events["club/g"] = &crm.EventStatus{Record: &crm.Record{Type: "x", State: crm.Processing, Attempts: 1, Created: day, Started: day}}
	s.types("synclog show club a", `
event      a
tenant     club
type       member.created
received   2026-03-01T12:00:00Z
completed  its handler succeeded
sync log   COMPLETED, 2 attempts, first tried 2026-03-01T12:00:00Z
job        completed: delivered, priority 2, ended 2026-03-01T12:02:00Z
failed     1. 2026-03-01T12:00:00Z  transient  answered 503`+"<U+001B>"+`[2J
completed  2026-03-01T12:02:00Z, begun 2026-03-01T12:01:00Z

`+strings.ReplaceAll(string(raw), "\x1b", "<U+001B>")+`
`)
	s.types("synclog show club b", `
event        b
tenant       club
type         member.updated
received     2026-03-01T12:00:00Z
dead         it was given up and is a dead letter: business: not allowed
               `+"`tidemill dead replay --pipeline crm-events --tenant club b`"+` opens it again
sync log     FAILED, 1 attempt, first tried 2026-03-02T12:00:00Z
job          failed: dead, priority 2, ended 2026-03-02T13:00:00Z
dead letter  7, held, replayed 1 time
failed       1. 2026-03-01T12:00:00Z  transient  answered 503`+"<U+001B>"+`[2J
failed       2. 2026-03-01T12:00:01Z  timeout  no answer
failed       3. 2026-03-02T13:00:00Z  business  not allowed

`+strings.ReplaceAll(string(raw), "\x1b", "<U+001B>")+`
`)
	for id, want := range map[string]string{
		"c": "retrying  +it failed, and is tried again: timeout: no answer; due 2026-03-01T13:00:00Z",
		"d": "queued  +it waits in crm-events for its turn; .*",
		"e": "failed  +it is not tried again: validation: no<U\\+001B>\\[2J",
		"f": "skipped  +there was nothing to do: no handler is for it",
		"g": "processing  +a handler has it now, .*",
	} {
		if status, out, errs := s.run(t.Context(), "", "synclog show club "+id); status != 0 || !lineOf(out, want) {
			t.Errorf("%s: %d %s%s\nwant a line %s", id, status, out, errs, want)
		}
	}
	s.types("synclog show club b --json", `~\{"tenant":"club","id":"b","type":"member.updated","state":"dead",.*`)
	if _, out, _ := s.run(t.Context(), "", "synclog show club a --payload"); out != string(raw) {
		t.Errorf("the event into a pipe is %q, want it byte for byte", out)
	}
	if _, out, _ := s.run(t.Context(), "", "synclog show club d --payload"); out != "{\"id\":\"b\"\x1b}" {
		t.Errorf("the event that waits is %q", out)
	}
	s.fails("synclog show club nix", "nothing is known of this event")
}

// TestFromSendingToExplaining is a session with a system that works.
func TestFromSendingToExplaining(t *testing.T) {
	ill := make(chan bool, 1)
	ill <- true
	p := crmtest.Parts(t, handler.Spec{Name: "test", Types: []string{"member.*"}, Handler: handler.Func(func(context.Context, *handler.Call) error {
		select {
		case <-ill:
			return tidemill.Fail(tidemill.Business, "members cannot be two")
		default:
			return nil
		}
	})})
	sys := crmtest.New(t, p, crm.Options{Create: true, Seed: 1})
	defer crmtest.Run(t, sys)()
	s := &session{T: t, queues: p.Queues.(*memoryqueue.Store), letters: p.DeadLetters}
	common := &answer.Common{Queues: s.queues}
	s.serve(admin.Parts{NoAuth: true, Common: common, Rooms: only(crm.Name, (&crmapi.API{Common: common, CRM: sys}).Operations()), Letters: s.letters, Systems: []admin.System{{Name: crm.Name, Pipelines: sys.Pipelines()}}})
	if status, out, errs := s.run(t.Context(), member("a"), "crm send"); status != 0 || out != "1 event accepted, 0 duplicates, 0 rejected.\n" {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	s.eventually("synclog show club a", "dead  +it was given up and is a dead letter: business: .*members cannot be two")
	s.types("dead list --pipeline crm-events --tenant club", `
~ID +DIED +KIND +STATE +REPLAYS +EVENT +CAUSE
~a +\S+ +business +held +0 +member.created +.*
`)
	s.eventually("dead show a", "tenant +club")
	s.fails("dead replay --pipeline crm-events nix", "job not found: no held dead letter")
	s.types("dead replay --pipeline crm-events --tenant club a", "Replaying 1 dead letter.")
	s.eventually("synclog show club a", "completed +its handler succeeded")
	s.types("synclog list --state failed", "No such events in the sync log.")
	s.types("replay start --all --id again", "Replay again has begun. `tidemill replay status again` shows its progress.")
	s.eventually("replay status again", "state +done")
	s.eventually("synclog list", `\S+ +club +a +member.created +COMPLETED +3`)
}

// eventually runs a command until a line of what it prints matches.
func (s *session) eventually(command, want string) {
	s.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		status, out, errs := s.run(s.Context(), "", command)
		if status == 0 && lineOf(out, want) {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("$ tidemill %s\nnever said %s\n%s%s", command, want, out, errs)
		}
	}
}

func TestASessionAboutHandlers(t *testing.T) {
	s, c := newClub(t)
	if _, out, _ := s.run(t.Context(), "", "synclog handlers"); !strings.Contains(out, "welcome  member.*  0       -") {
		t.Errorf("before any failed: %s", out)
	}
	at := time.Now().UTC().Truncate(time.Second).Add(-time.Hour) // of the last 24 hours
	c.records = []*crm.Record{{Tenant: "club", ID: "a", Type: "member.created", State: crm.IsFailed, Kind: "business", Error: "no\x1b[2J", Created: at, Failed: at}}
	if status, out, errs := s.run(t.Context(), "", "synclog handlers"); status != 0 || !strings.Contains(out, "welcome  member.*  1       "+at.Format(time.RFC3339)+"  business: no<U+001B>[2J") {
		t.Errorf("%d %s%s", status, out, errs)
	}
}
