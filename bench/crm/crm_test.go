package crm

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/systems/crm/event"
)

func TestEventsAreTheSameForAllAndWhatTheDoorTakes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	if err := writeEvents(name, 1000); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines, size, seen := bytes.Split(bytes.TrimSpace(b), []byte{'\n'}), 0, map[string]bool{}
	for i, one := range newEvents().take(1000) {
		size += len(one.raw)
		if n, err := process.Number(one.raw); n != i || err != nil {
			t.Fatalf("event %d has number %d, %v", i, n, err)
		}
		var e event.Event
		if err := event.Decode(one.raw, &e); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one.raw, lines[i]) || e.ID != one.id || e.Tenant != one.tenant || e.Type != one.typ || seen[e.ID] {
			t.Fatalf("event %d is %+v, and %q in the file", i, e, lines[i])
		}
		seen[e.ID] = true
	}
	if mean := size / 1000; mean < 450 || mean > 550 {
		t.Errorf("events have %d bytes; want 500", mean)
	}
	for _, bad := range []string{"", "{}", `{"n":1`, `{"n":x}`} {
		if n, err := process.Number([]byte(bad)); err == nil {
			t.Errorf("%q has number %d", bad, n)
		}
	}
}

func TestWhatIsNotTrueIsAProblem(t *testing.T) {
	b := &bench{options: options{jobs: 10}}
	right := report{Done: 10, Completed: 10}
	for name, c := range map[string]struct {
		what string
		told report
		ok   bool
	}{
		"all is done":                   {"process", right, true},
		"all is in":                     {"add", report{Done: 10, Held: 10}, true},
		"one is not done":               {"process", report{Done: 9, Completed: 10}, false},
		"one was done twice":            {"process", report{Done: 10, Twice: 1, Completed: 10}, false},
		"one is left":                   {"process", report{Done: 10, Held: 1, Completed: 10}, false},
		"the log has one that is open":  {"process", report{Done: 10, Completed: 9}, false},
		"the log knows before it began": {"add", report{Done: 10, Held: 10, Completed: 1}, false},
		"the books do not balance":      {"process", report{Done: 10, Completed: 10, Failed: "off by one"}, false},
	} {
		if err := b.judge(contender{log: true}, &result{}, c.what, process.Look{}, process.Look{At: time.Time{}.Add(1)}, c.told); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.judge(contender{}, &result{}, "process", process.Look{}, process.Look{At: time.Time{}.Add(1)}, report{Done: 10}); err != nil {
		t.Errorf("who has no sync log: %v", err)
	}
}

func row(name string, rate float64) *result {
	return &result{Common: rounds.Common{Name: name}, Rate: rate}
}

func TestRatiosAreToTheFasterOfTheRound(t *testing.T) {
	m := measurement{name: "tidemill", limit: "limit", bullmq: []string{"bullmq 10", "bullmq 100"}}
	r := row("tidemill", 100)
	compare([]*result{row("limit", 400), row("bullmq 10", 20), row("bullmq 100", 50)}, m, r)
	if r.BullMQ != 2 || r.Limit != 0.25 {
		t.Errorf("ratios are %+v", r)
	}
	other := row("limit", 400)
	if compare([]*result{r}, measurement{name: "limit", bullmq: m.bullmq}, other); other.BullMQ != 0 || other.Limit != 0 {
		t.Errorf("a limit is compared: %+v", other)
	}
}
