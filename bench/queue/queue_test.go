package queue

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
)

func TestEventsAreTheSameForAll(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	if err := writeEvents(name, 1000); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines, size := bytes.Split(bytes.TrimSpace(b), []byte{'\n'}), 0
	for i, m := range newEvents().take("q", 1000) {
		size += len(m.Payload)
		if n, err := process.Number(m.Payload); n != i || err != nil {
			t.Fatalf("event %d has number %d, %v", i, n, err)
		}
		if !bytes.Equal(m.Payload, lines[i]) || !json.Valid(m.Payload) || m.ID == "" || m.Tenant == "" || m.To != "q" {
			t.Fatalf("event %d is %+v, and %q in the file", i, m, lines[i])
		}
	}
	if mean := size / 1000; mean < 480 || mean > 520 {
		t.Errorf("events have %d bytes; want 500", mean)
	}
	for _, bad := range []string{"", "{}", `{"n":1`, `{"n":x}`} {
		if n, err := process.Number([]byte(bad)); err == nil {
			t.Errorf("%q has number %d", bad, n)
		}
	}
}

func TestCallersAddEachJobOnce(t *testing.T) {
	for name, add := range map[string]func([]*tidemill.Message, func([]*tidemill.Message) error) error{"bulks": bulks, "singles": singles} {
		s := process.NewSeen(2500)
		err := add(newEvents().take("q", 2500), func(jobs []*tidemill.Message) error {
			for _, m := range jobs {
				if _, err := s.One(m.Payload); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || s.N() != 2500 || s.Twice() != 0 {
			t.Errorf("%s: %d of 2500 were added, %d more than once, %v", name, s.N(), s.Twice(), err)
		}
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{{[]float64{5, 5, 5, 5}, 1}, {[]float64{8, 0, 0, 0}, 0.25}, {[]float64{1, 3}, 0.8}, {nil, 0}} {
		if got := jain(c.shares); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("index of %v is %v, want %v", c.shares, got, c.want)
		}
	}
}

func row(name string, rate float64) *result {
	return &result{Common: rounds.Common{Name: name}, Rate: rate}
}

func TestRatiosAreToWhoDoesTheSameInTheRound(t *testing.T) {
	plain, limits := measurement{name: "tidemill redis: " + by100, same: by100}, measurement{name: "x", same: by100, without: "tidemill redis: " + by100}
	round := []*result{
		row("limit: script a job, "+by100, 50), row("bullmq: "+by100, 20), row("bullmq: "+by10, 1),
		row("asynq: "+by100, 10), row(plain.name, 100),
	}
	r := round[4]
	if compare(round, plain, r); r.BullMQ != 5 || r.Asynq != 10 || r.Limit != 2 || r.Without != 0 {
		t.Errorf("ratios are %+v", r)
	}
	less := row("x", 80)
	if compare(append(round, less), limits, less); less.Without != 0.8 {
		t.Errorf("with limits it has %v of the rate without, want 0.8", less.Without)
	}
	if compare(round[:1], measurement{name: round[0].Name, same: by100}, round[0]); round[0].Limit != 0 {
		t.Error("a limit is compared with itself")
	}
}
