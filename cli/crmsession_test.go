package cli

import (
	"context"
	"fmt"
	"iter"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// club is a CRM system as a person at a terminal may find it: what is accepted lands in a
// queue on which nobody works, and the rest is as the test says.
type club struct {
	events  map[string]*crm.EventStatus
	records []*crm.Record
	replays []*crm.Replay
	state   crm.State
	taker   *accept.Acceptor
	begun   bool
	looked  func() // called by who looks at a replay, once one has begun; nil: nobody wants to know
}

func (c *club) Look(context.Context) (*crm.State, error) { return &c.state, nil }
func (c *club) Handlers() []handler.Spec {
	return []handler.Spec{{Name: "welcome", Types: []string{"member.*"}}}
}

func (c *club) HandlerOf(typ string) string {
	if strings.HasPrefix(typ, "member.") {
		return "welcome"
	}
	return ""
}

func (c *club) Acceptor() *accept.Acceptor { return c.taker }

// Profile knows ann alone.
func (c *club) Profile(_ context.Context, tenant string, by profile.Identity) (*profile.Profile, error) {
	if n, err := by.Normal(); err != nil || n.Value != "ann@example.com" {
		return nil, tidemill.Fail(tidemill.NotFound, "tenant %s has no profile with this %s", tenant, by.Kind)
	}
	return &profile.Profile{ID: uuid.Nil, Tenant: tenant, Identities: []profile.Identity{{Kind: profile.External, Value: "m-1"}, {Kind: profile.Email, Value: "ann@example.com"}},
		Attributes: map[string][]byte{"visits": []byte("2"), "city": []byte(`"Graz"`)}, Created: day, Updated: day.Add(time.Hour)}, nil
}

func (c *club) Event(_ context.Context, tenant, id string) (*crm.EventStatus, error) {
	if e := c.events[tenant+"/"+id]; e != nil {
		return e, nil
	}
	return nil, tidemill.Fail(tidemill.NotFound, "event %q of tenant %q: %w", id, tenant, crm.ErrNoEvent)
}

func (c *club) Records(_ context.Context, f crm.RecordFilter) iter.Seq2[*crm.Record, error] {
	return func(yield func(*crm.Record, error) bool) {
		n := 0
		for _, r := range c.records {
			if f.State != "" && f.State != r.State || !f.From.IsZero() && r.Created.Before(f.From) || !f.To.IsZero() && r.Created.After(f.To) || f.Type != "" && f.Type != r.Type {
				continue
			}
			if n++; f.Max > 0 && n > f.Max || !yield(r, nil) {
				return
			}
		}
	}
}

func (c *club) Retry(context.Context, string, string) error { return nil }

func (c *club) Replay(_ context.Context, r crm.ReplayRequest) (*crm.Replay, error) {
	if r.ID == "" {
		r.ID = "made"
	}
	defer func() { c.begun = true }()
	if p, err := c.ReplayOf(context.Background(), r.ID); err == nil {
		if !p.From.Equal(r.From) {
			return nil, tidemill.Fail(tidemill.Business, "replay %s: %w", r.ID, crm.ErrReplayTaken)
		}
		return p, nil
	}
	c.replays = append(c.replays, &crm.Replay{ReplayRequest: r, State: crm.ReplayRunning, Asked: day})
	return c.replays[len(c.replays)-1], nil
}

func (c *club) Replays(context.Context) ([]*crm.Replay, error) { return c.replays, nil }

// ReplayOf comes a step further each time that it is asked.
func (c *club) ReplayOf(_ context.Context, id string) (*crm.Replay, error) {
	if c.begun && c.looked != nil {
		c.looked()
	}
	for _, p := range c.replays {
		if p.ID == id {
			if p.State == crm.ReplayRunning {
				if p.Queued++; p.Queued == 2 {
					p.State, p.Share, p.Ended = crm.ReplayDone, 1, day.Add(time.Minute)
				}
			}
			return p, nil
		}
	}
	return nil, tidemill.Fail(tidemill.NotFound, "replay %q: %w", id, crm.ErrNoReplay)
}

func (c *club) StopReplay(_ context.Context, id string) error {
	for _, p := range c.replays {
		if p.ID == id && p.State == crm.ReplayRunning {
			p.State = crm.ReplayStopping
		}
	}
	return nil
}

func newClub(t *testing.T) (*session, *club) {
	t.Helper()
	clock := func() time.Time { return day }
	s, c := &session{T: t, queues: memoryqueue.New(memoryqueue.Options{Now: clock})}, &club{events: map[string]*crm.EventStatus{}}
	var err error
	if s.letters, err = tabledeadletter.Memory(deadletter.Options{Now: clock}); err != nil {
		t.Fatal(err)
	}
	if c.taker, err = accept.New(s.queues, accept.Options{}); err != nil {
		t.Fatal(err)
	}
	common := &answer.Common{Queues: s.queues}
	s.serve(admin.Parts{NoAuth: true, Common: common, Rooms: only(crm.Name, (&crmapi.API{Common: common, CRM: c}).Operations()), Letters: s.letters})
	return s, c
}

func (s *session) serve(p admin.Parts) {
	s.Helper()
	cfg, err := systems.All().Settings().Load(config.Layers{})
	if err != nil {
		s.Fatal(err)
	}
	p.Config, p.Owners = func() *config.Loaded { return cfg }, systems.All().Owners()
	if p.Rooms == nil {
		p.Rooms = systems.All().Rooms(nil)
	}
	server := httptest.NewServer(admin.New(p))
	s.Cleanup(server.Close)
	s.url = server.URL
}

// only is the API where one system runs.
func only(name string, does []operation.Handler) []admin.Room {
	return systems.All().Rooms(map[string]admin.Room{name: {Does: does}})
}

// member is an event of the club.
func member(id string, more ...string) string {
	return fmt.Sprintf(`{"id":%q,"type":"member.created","tenantId":"club","identity":{"email":"ann@example.com"},"occurredAt":"2026-03-01T12:00:00Z"%s}`, id, strings.Join(append([]string{""}, more...), ","))
}

func TestEventsAreSentFromFiles(t *testing.T) {
	s, _ := newClub(t)
	file := func(name, text string) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	indented := strings.NewReplacer(`{"id"`, "{\n  \"id\"", `,"type"`, ",\n  \"type\"").Replace(member("c", `"payload":{"n":1.50}`))
	s.types("crm send "+file("a.ndjson", "\n"+member("a")+"\r\n\n"+member("b"))+" "+file("b.json", indented+"\n"+member("d"))+" "+file("c.json", "["+member("e")+",\n"+member("a")+"]\n"), "5 events accepted, 1 duplicate, 0 rejected.")
	j, err := s.queues.Look(t.Context(), queue.Name{Queue: crm.Queue, Tenant: "club", ID: "c"})
	if err != nil || string(j.Payload) != indented {
		t.Errorf("it is not sent as it is: %v, %+v", err, j)
	}
	if status, out, errs := s.run(t.Context(), member("f")+"\nno JSON\n"+member("g", `"payload":7`)+"\n\"\xff\"\n"+foreignTenant("h"), "crm send"); status != 1 || out != "2 events accepted, 0 duplicates, 3 rejected.\n" || errs !=
		"rejected: standard input, line 2: it is not JSON in UTF-8\nrejected: standard input, line 4: it is not JSON in UTF-8\nrejected: standard input, line 3: event g: payload is a number (allowed: an object)\n"+
			"tidemill: 3 events were rejected; the others were not held up\n" {
		t.Errorf("%d %s%s", status, out, errs)
	}
	if status, out, _ := s.run(t.Context(), member("f")+"\n{}", "crm send - --json"); status != 1 || !strings.HasPrefix(out, `{"accepted":0,"duplicates":1,"rejected":1,"reasons":["standard input, line 2: id is missing`) {
		t.Errorf("%d %s", status, out)
	}
	if status, out, errs := s.run(t.Context(), "["+member("k")+","+member("l")+",}", "crm send"); status != 1 || out != "2 events accepted, 0 duplicates, 0 rejected.\n" || !strings.Contains(errs, "standard input, event 3: it is not JSON") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	long := `{"id":"` + strings.Repeat("x", command.Longest) + `"}`
	if status, out, errs := s.run(t.Context(), member("m")+"\n"+long+"\n"+member("n"), "crm send"); status != 1 || out != "2 events accepted, 0 duplicates, 1 rejected.\n" || !strings.Contains(errs, "line 2: it is longer than") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	if status, out, errs := s.run(t.Context(), "["+member("o")+","+long+"]", "crm send"); status != 1 || out != "1 event accepted, 0 duplicates, 0 rejected.\n" || !strings.Contains(errs, "event 2: it is longer than 1048576 bytes; what follows is not read") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	s.types("crm send "+file("empty", ""), "0 events accepted, 0 duplicates, 0 rejected.")
	s.fails("crm send nix.json", "nix.json: no such file")
	s.fails("crm send "+t.TempDir(), "is a folder")
}

func foreignTenant(id string) string { return strings.Replace(member(id), `"club"`, `"other"`, 1) }

func TestManyEventsAreSentInBatches(t *testing.T) {
	s, _ := newClub(t)
	var b strings.Builder
	for i := range 1234 {
		fmt.Fprintln(&b, member(fmt.Sprint("e", i)))
	}
	for i := range 12 {
		fmt.Fprintln(&b, member(fmt.Sprint("large", i), `"payload":{"a":"`+strings.Repeat("x", 200<<10)+`"}`))
	}
	if status, out, errs := s.run(t.Context(), b.String(), "crm send"); status != 0 || out != "1246 events accepted, 0 duplicates, 0 rejected.\n" || errs != "" {
		t.Errorf("%d %s%s", status, out, errs)
	}
	if _, err := s.queues.Set(t.Context(), crm.Queue, func(q *queue.Settings) { q.Closed = true }); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := s.run(t.Context(), member("x")+"\n"+member("y"), "crm send"); status != 1 || out != "0 events accepted, 0 duplicates, 0 rejected.\n" || !strings.Contains(errs, "from standard input, line 1 on no event is known") || !strings.Contains(errs, "is being drained") {
		t.Errorf("%d %s%s", status, out, errs)
	}
}

func TestHowCRMStandsIsShown(t *testing.T) {
	s, c := newClub(t)
	c.state = crm.State{Jobs: queue.Stats{Waiting: 12, Delayed: 3, Leased: 1, Completed: 1000, Failed: 2, Oldest: time.Now().Add(-time.Hour)}, Ended: tidemill.Count{Delivered: 1200, Skipped: 34, Dead: 5}, Depths: []queue.Depth{{Priority: 3, Waiting: 2}, {Priority: 2, Waiting: 10}},
		Paused: true, Dead: 2, Expired: 1, Matched: 97.53, Met: true}
	c.replays = []*crm.Replay{{ReplayRequest: crm.ReplayRequest{ID: "r"}, State: crm.ReplayStopping}}
	s.types("crm status", `
~queue +crm-events, paused: .tidemill queue resume crm-events. ends it
~waiting +12: high 2, normal 10
~delayed +3
~being handled +1
~oldest +1h0m\d+s
~completed +1200
~skipped +34
~failed +5
~kept +1000 completed or skipped, 2 failed
~dead letters +2: .tidemill dead list --pipeline crm-events.; 1 deleted because of their age
~matched +97.5% of the events of the last five minutes found an existing profile
~replays +1 open: .tidemill replay status.
`)
	s.types("crm status --json", `~\{"queue":"crm-events","paused":true,.*"matched_percent":97.53,"open_replays":1\}`)
	c.state, c.replays = crm.State{}, nil
	s.types("crm status", `
queue          crm-events, open
waiting        0
delayed        0
being handled  0
oldest         -
completed      0
skipped        0
failed         0
kept           0 completed or skipped, 0 failed
dead letters   0
matched        no events in the last five minutes
replays        none open
`)
	newSession(t).fails("crm status", "CRM does not run in this instance")
}

func TestAProfileIsShown(t *testing.T) {
	s, _ := newClub(t)
	s.types("crm profile club --email Ann@Example.com", `
profile     00000000-0000-0000-0000-000000000000
tenant      club
created     2026-03-01T12:00:00Z
updated     2026-03-01T13:00:00Z
externalId  m-1
email       ann@example.com
attribute   city = "Graz"
attribute   visits = 2
`)
	s.types("crm profile club --email ann@example.com --json", `{"id":"00000000-0000-0000-0000-000000000000","tenant":"club","identities":[{"kind":"externalId","value":"m-1"},{"kind":"email","value":"ann@example.com"}],"attributes":{"city":"Graz","visits":2},"created_at":"2026-03-01T12:00:00Z","updated_at":"2026-03-01T13:00:00Z"}`)
	s.fails("crm profile club --phone 0301", "tenant club has no profile with this phone")
	for _, line := range []string{"crm profile club", "crm profile club --email a@b --phone 1"} {
		if status, _, errs := s.run(t.Context(), "", line); status != 2 || !strings.Contains(errs, "say whose profile: one of --external-id, --email and --phone") {
			t.Errorf("%s: %d %s", line, status, errs)
		}
	}
}

func TestJobsThatWaitAreOnlyRemovedWhereThatIsMeant(t *testing.T) {
	s, _ := newClub(t)
	if status, _, errs := s.run(t.Context(), member("a")+member("b"), "crm send"); status != 0 {
		t.Fatal(errs)
	}
	s.types("queue clean crm-events --state wait --dry-run", "2 jobs would be removed.")
	for answer, want := range map[string]string{"": "--yes answers the question", "n\n": "nothing was done", "\n": "nothing was done"} {
		if status, out, errs := s.run(t.Context(), answer, "queue clean crm-events --state wait"); status != 1 || out != "" || !strings.Contains(errs, "2 jobs of crm-events will be removed; those that have not ended will never run. Go on? [y/N]") || !strings.Contains(errs, want) {
			t.Errorf("%q: %d %s%s", answer, status, out, errs)
		}
	}
	s.types("queue clean crm-events --state completed", "0 jobs forgotten.")
	if status, out, _ := s.run(t.Context(), "y\n", "queue clean crm-events --state wait -n 1"); status != 0 || out != "1 job removed.\n" {
		t.Errorf("%d %s", status, out)
	}
	s.types("queue clean crm-events --state all --yes", "1 job removed.")
}
