//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/test/process"
)

// TestAnUpgradeLosesNothing starts the version before, with something of everything in it, and puts
// this one in its place while events come. The way back is the backup of the version before, which
// this one reads too.
func TestAnUpgradeLosesNothing(t *testing.T) {
	t.Parallel()
	old, err := process.Before()
	if errors.Is(err, process.ErrNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	in := newEmpty(t)
	in.Binary = process.Before
	in.Start()
	in.seed()
	in.post("users", "application/json", `{"name":"ada","role":"operator","password":"a password of sixteen"}`)
	had := in.rests()
	archive := filepath.Join(t.TempDir(), "before")
	in.Ask("backup", archive)

	live := in.sendOn()
	in.await(live, 200)
	in.replace(nil)
	in.await(live, 400)
	in.replace(nil) // as it is started from now on
	sent := live.end()
	in.keeps(had)
	in.storedOnce(sent)
	var trail struct{ Whole bool }
	in.get("audit-trail/check", &trail)
	var books api.Audits
	if in.get("audit", &books); !books.Balanced || !trail.Whole {
		t.Errorf("the books: %+v; the audit trail: %+v", books, trail)
	}
	t.Logf("%d events came meanwhile; senders waited %v at most", len(sent), live.longest.Round(time.Millisecond))

	this, err := process.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for path, what := range map[string]string{old: "the version before", this: "this version"} {
		from := newEmpty(t)
		from.Binary = func() (string, error) { return path, nil }
		if out, err := exec.CommandContext(t.Context(), path, "restore", archive, "--data", from.Dir).CombinedOutput(); err != nil {
			t.Fatalf("%s does not restore the backup: %v\n%s", what, err, out)
		}
		from.Start()
		from.searches()
		from.keeps(had)
		from.Kill()
	}
}

// replace stops it, and starts what is to run from now on.
func (in *seeded) replace(with func() (string, error)) {
	in.t.Helper()
	if err := in.Stop(time.Minute); err != nil {
		in.t.Fatal(err)
	}
	in.Binary = with
	in.Start()
	in.searches()
}

// searches waits until it can search, which may be a moment after its start.
func (in *seeded) searches() {
	in.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // another process
		_, err := in.Try("search", "berlin")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			in.t.Fatal(err)
		}
	}
}

// kept are listings of what stays as it is, with the fields that tell what it is.
var kept = map[string][]string{
	"dead":                            {"seq", "id", "pipeline", "kind", "cause", "payload"},
	"queues/s2s.away/jobs":            {"id", "tenant", "type", "payload"},
	"events?project=shop&name=bought": {"event_id", "distinct_id", "person_id", "properties"},
	"persons?project=shop&distinct_id=user-1": {"id", "distinct_ids"},
	"crm/log": {"id", "kind", "state", "tenant", "type"},
	"crm/profiles?tenant=club&externalId=m-1": {"id", "attributes"},
	"windows?batch=20250323153000":            {"id", "state", "records"},
	"search?family=events&q=berlin":           {"total"},
	"users":                                   {"name", "role"},
	"projects":                                {"id", "name"},
}

// rests waits until nothing in it changes for a while, and returns what it has.
func (in *seeded) rests() map[string][]string {
	in.t.Helper()
	(&instance{in.Instance, in.t}).settled()
	had := in.has()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		time.Sleep(time.Second) // between two looks at another process
		now := in.has()
		if reflect.DeepEqual(had, now) {
			return now
		}
		had = now
	}
	in.t.Fatal("it does not come to rest in a minute")
	return nil
}

// has is what is in it, by listing: what each item is.
func (in *seeded) has() map[string][]string {
	in.t.Helper()
	all := map[string][]string{}
	for path, fields := range kept {
		dec := json.NewDecoder(bytes.NewReader(in.listed(path)))
		for dec.More() {
			var v any
			if err := dec.Decode(&v); err != nil {
				in.t.Fatalf("%s: %v", path, err)
			}
			some, several := v.([]any)
			if !several {
				some = []any{v}
			}
			for _, one := range some {
				all[path] = append(all[path], identity(one, fields))
			}
		}
		slices.Sort(all[path])
	}
	return all
}

func identity(v any, fields []string) string {
	m, _ := v.(map[string]any)
	var b strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&b, "%s %v; ", f, m[f])
	}
	return b.String()
}

// keeps checks that all is there that was.
func (in *seeded) keeps(had map[string][]string) {
	in.t.Helper()
	now := in.has()
	for path, items := range had {
		if len(items) == 0 {
			in.t.Errorf("%s was empty", path)
		}
		for _, one := range items {
			if !slices.Contains(now[path], one) {
				in.t.Errorf("%s has not what it had: %s", path, one)
			}
		}
	}
}

// sending are events that are sent until they are taken, one after the other, whatever is in their way.
type sending struct {
	stop, stopped chan struct{}
	mu            sync.Mutex // guards sent
	sent          []string
	longest       time.Duration
}

func (in *seeded) sendOn() *sending {
	s := &sending{stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(s.stopped)
		for {
			select {
			case <-s.stop:
				return
			default:
			}
			id, begun := uuid.NewString(), time.Now()
			for offer(in.Addr, id, "meanwhile", "d") != nil {
				time.Sleep(10 * time.Millisecond) // as senders do
			}
			s.mu.Lock()
			s.sent, s.longest = append(s.sent, id), max(s.longest, time.Since(begun))
			s.mu.Unlock()
		}
	}()
	return s
}

// await waits until so many were taken.
func (in *seeded) await(s *sending, n int) {
	in.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // another goroutine sends
		s.mu.Lock()
		sent := len(s.sent)
		s.mu.Unlock()
		if sent >= n {
			return
		}
		if time.Now().After(deadline) {
			in.t.Fatalf("%d events were taken in a minute, want %d", sent, n)
		}
	}
}

// end stops sending, and returns the ids of what was taken.
func (s *sending) end() []string {
	close(s.stop)
	<-s.stopped
	return s.sent
}

// storedOnce checks that each event is stored once.
func (in *seeded) storedOnce(ids []string) {
	in.t.Helper()
	(&instance{in.Instance, in.t}).settled()
	found := map[string]int{}
	dec := json.NewDecoder(bytes.NewReader(in.listed("events?project=shop&name=meanwhile")))
	for dec.More() {
		var e struct {
			ID string `json:"event_id"`
		}
		if err := dec.Decode(&e); err != nil {
			in.t.Fatal(err)
		}
		found[e.ID]++
	}
	for _, id := range ids {
		if found[id] != 1 {
			in.t.Errorf("event %s is stored %d times", id, found[id])
		}
		delete(found, id)
	}
	if len(found) > 0 {
		in.t.Errorf("%d events are stored that nobody was told of", len(found))
	}
}
