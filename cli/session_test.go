package cli

import (
	"bytes"
	"context"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
)

// session is a person at a terminal, and an instance that delivers to two partners.
type session struct {
	*testing.T
	url      string
	letters  deadletter.Store
	queues   *memoryqueue.Store
	partners *partners
}

// day is when everything in these sessions happened.
var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newSession(t *testing.T) *session {
	t.Helper()
	cfg, err := systems.All().Settings().Load(config.Layers{})
	if err != nil {
		t.Fatal(err)
	}
	deliveryconfig.Of(cfg).Sites = []deliveryconfig.Site{{ID: "shop"}}
	clock := func() time.Time { return day }
	s := &session{T: t, queues: memoryqueue.New(memoryqueue.Options{Now: clock}), partners: new(partners)}
	if s.letters, err = tabledeadletter.Memory(deadletter.Options{Now: clock}); err != nil {
		t.Fatal(err)
	}
	sites := tableproject.Memory()
	if err := sites.Ensure(t.Context(), project.Project{ID: project.ID("shop"), Name: "shop"}, project.HashOf(tidemill.NewSecret("k"))); err != nil {
		t.Fatal(err)
	}
	a := &deliveryapi.API{Common: &answer.Common{Projects: sites, Queues: s.queues}, Delivery: s.partners, Config: func() *config.Loaded { return cfg }}
	api := admin.New(admin.Parts{NoAuth: true, Config: func() *config.Loaded { return cfg }, Common: a.Common, Rooms: only(delivery.Name, a.Operations()), Owners: systems.All().Owners(), Letters: s.letters,
		Bulk: tablebulk.Memory(), Views: tableaccess.Memory().Views(), Once: tableledger.Memory(tableledger.Options{})})
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	operate, ctx := api.Operate(), t.Context()
	go func() { // as the loop of an instance does
		for sleep.For(ctx, 10*time.Millisecond) == nil {
			if err := operate(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	s.url = server.URL
	return s
}

// die puts letters.
func (s *session) die(ls ...tidemill.DeadLetter) {
	s.Helper()
	for i := range ls {
		if ls[i].At.IsZero() {
			ls[i].At = day
		}
	}
	if err := s.letters.Put(s.Context(), ls); err != nil {
		s.Fatal(err)
	}
}

// letter is one that dv360 did not take.
func letter(id string) tidemill.DeadLetter {
	f := queue.Failure{At: day.Add(-time.Minute), Kind: tidemill.Partner, Cause: "answered 502\x1b[2J"}
	return tidemill.DeadLetter{Pipeline: "s2s.dv360", Kind: tidemill.Timeout, Cause: "no answer", Tries: 2, Row: []byte(`{"status":504,"body":"\u001b[2Jlate"}`),
		Message: &tidemill.Message{ID: id, Tenant: "shop", Type: "purchase", To: "s2s.dv360", Payload: []byte("{\"a\":\x1b1}"),
			Header: []tidemill.Field{{Name: []byte("gpc"), Value: []byte("1")}, {Name: []byte(queue.FailuresHeader), Value: f.Append(nil)}}}}
}

// add puts jobs into queue q.
func (s *session) add(ids ...string) {
	s.Helper()
	for _, id := range ids {
		m := &tidemill.Message{To: "q", ID: id, Tenant: "shop", Type: "purchase", Payload: []byte("payload of " + id)}
		if err := s.queues.Add(s.Context(), []*tidemill.Message{m}, nil); err != nil {
			s.Fatal(err)
		}
	}
}

// types runs a command, which is to succeed and to print this, line by line: those that
// begin with ~ are regular expressions.
func (s *session) types(line, want string) {
	s.Helper()
	status, out, errs := s.run(s.Context(), "", line)
	if status != 0 || errs != "" {
		s.Errorf("$ tidemill %s\nexit status %d: %s", line, status, errs)
		return
	}
	got, lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n"), strings.Split(strings.Trim(want, "\n"), "\n")
	ok := len(got) == len(lines)
	for i := 0; ok && i < len(got); i++ {
		if pattern, is := strings.CutPrefix(lines[i], "~"); is {
			ok = regexp.MustCompile("^" + pattern + "$").MatchString(got[i])
		} else {
			ok = strings.TrimRight(got[i], " ") == lines[i]
		}
	}
	if !ok {
		s.Errorf("$ tidemill %s\n%s\nwant\n%s", line, out, strings.Trim(want, "\n"))
	}
}

// fails runs a command that is to end with exit status 1 and to say this.
func (s *session) fails(line, want string) {
	s.Helper()
	if status, out, errs := s.run(s.Context(), "", line); status != 1 || !strings.Contains(errs, want) {
		s.Errorf("$ tidemill %s\nexit status %d, want 1 and %q\n%s%s", line, status, want, out, errs)
	}
}

func (s *session) run(ctx context.Context, stdin, line string) (status int, out, errs string) {
	s.Helper()
	var o, e bytes.Buffer
	status = run(ctx, append(strings.Fields(line), "--server", s.url), command.Env{Table: systems.All(), In: strings.NewReader(stdin), Out: &o, Err: &e, Getenv: func(string) string { return "" }})
	return status, o.String(), e.String()
}

// lineOf says whether a line of a text matches.
func lineOf(text, pattern string) bool {
	re := regexp.MustCompile("^" + pattern + " *$")
	for line := range strings.Lines(text) {
		if re.MatchString(strings.TrimSuffix(line, "\n")) {
			return true
		}
	}
	return false
}
