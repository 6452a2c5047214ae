package bullmqsource

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
)

func TestNewRefusesNonsense(t *testing.T) {
	if _, err := New(nil, Options{Queue: "q"}); err == nil {
		t.Error("a source needs no connection")
	}
	testenv.Need(t)
	client := redistest.Connect(t, testenv.Redis(t))
	for _, o := range []Options{{}, {Queue: "a:b"}, {Queue: "q", Lease: time.Millisecond}, {Queue: "q", Lease: -1}, {Queue: "q", Limit: Limit{Jobs: 1}}, {Queue: "q", Limit: Limit{Per: time.Second}}} {
		if _, err := New(client, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	s, err := New(client, Options{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if traits := s.Traits(); traits != (tidemill.Traits{Delays: true, Parks: true, Keep: 10 * time.Second}) {
		t.Errorf("traits are %+v", traits)
	}
}

// A queue of an unknown version is left alone.
func TestRefusesOtherVersions(t *testing.T) {
	testenv.Need(t)
	t.Parallel()
	r := newRig(t, "bullmq-six", Options{})
	r.add(map[string]any{}, nil)
	if err := r.client.Do(t.Context(), r.client.B().Hset().Key(r.src.meta[0]).FieldValue().FieldValue("version", "bullmq:9.0.0").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	_, err := r.src.Receive(t.Context(), []*tidemill.Message{new(tidemill.Message)})
	if err == nil || !strings.Contains(err.Error(), "9.0.0") || tidemill.KindOf(err) != tidemill.Validation {
		t.Fatalf("received from an unknown version: %v", err)
	}
	if n := r.counts(); n["active"] != 0 {
		t.Errorf("counts are %v, want none active", n)
	}
}
