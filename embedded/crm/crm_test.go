package crm_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill/embedded/crm"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/profile"
	rules "github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

const event = `{"id": "evt-%d", "type": "%s", "tenantId": "club-7", "identity": {"email": "ann@example.com"},
	"occurredAt": "2026-01-15T10:00:00Z", "payload": {"name": "Ann"}}`

// run lets the club work until its books say that n events have ended.
func run(t *testing.T, club *crm.CRM, n uint64) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- club.Run(ctx) }()
	for a := (&rules.Audit{}); a.Delivered+a.Skipped+a.Dead < n && ctx.Err() == nil; {
		time.Sleep(time.Millisecond) // asks again, for as long as it takes
		var err error
		if a, err = club.Audit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Events are applied once, over a restart too: attributes by the mapping, others by the
// application's own function, what has no handler is skipped, what fails is a dead letter.
func TestOpen(t *testing.T) {
	path, booked := filepath.Join(t.TempDir(), "club.db"), 0
	options := []crm.Option{
		crm.Attributes("member.*", handler.Mapping{{Attribute: "name", From: "payload.name"}}),
		crm.Handle("booking.created", func(context.Context, *handler.Call) error { booked++; return nil }),
		crm.Handle("booking.refused", func(context.Context, *handler.Call) error { return errors.New("no") }),
		crm.With(func(o *rules.Options) { o.Attempts, o.Backoff = 2, time.Millisecond }),
	}
	types := []string{"member.created", "booking.created", "booking.refused", "weather.changed"}
	for range 2 { // the second time all is known
		club, err := crm.Open(t.Context(), path, options...)
		if err != nil {
			t.Fatal(err)
		}
		var raws [][]byte
		for i, typ := range types {
			raws = append(raws, fmt.Appendf(nil, event, i, typ))
		}
		if _, err := club.Accept(t.Context(), raws...); err != nil {
			t.Fatal(err)
		}
		run(t, club, uint64(len(types)))
		a, err := club.Audit(t.Context())
		if err != nil || !a.Balanced || a.Accepted != 4 || a.Delivered != 2 || a.Skipped != 1 || a.Dead != 1 || booked != 1 {
			t.Errorf("%+v, %v; booked %d times", a, err, booked)
		}
		if n, err := club.DeadLetters().Count(t.Context(), deadletter.Filter{Pipeline: rules.Queue}); n != 1 || err != nil {
			t.Errorf("%d dead letters, %v", n, err)
		}
		ann := profile.Identity{Kind: profile.Email, Value: "ann@example.com"}
		if p, err := club.Profiles().Find(t.Context(), "club-7", ann); err != nil || string(p.Attributes["name"]) != `"Ann"` {
			t.Errorf("%+v, %v", p, err)
		}
		if err := club.Close(); err != nil {
			t.Error(err)
		}
	}
}

// All of the file goes by one clock: what a clean-up by age deletes was written by it too.
func TestOneClock(t *testing.T) {
	now := time.Date(2040, 2, 29, 12, 0, 0, 0, time.UTC)
	club, err := crm.Open(t.Context(), filepath.Join(t.TempDir(), "club.db"),
		crm.Attributes("member.*", handler.Mapping{{Attribute: "name", From: "payload.name"}}),
		crm.With(func(o *rules.Options) { o.Now = func() time.Time { return now } }))
	if err != nil {
		t.Fatal(err)
	}
	defer club.Close()
	if _, err := club.Accept(t.Context(), fmt.Appendf(nil, event, 1, "member.created")); err != nil {
		t.Fatal(err)
	}
	run(t, club, 1)
	p, err := club.Profiles().Find(t.Context(), "club-7", profile.Identity{Kind: profile.Email, Value: "ann@example.com"})
	if err != nil || !p.Created.Equal(now) || !p.Updated.Equal(now) {
		t.Errorf("%+v, %v, want it of %v", p, err, now)
	}
	n := 0
	for e, err := range club.Records(t.Context(), rules.RecordFilter{}) {
		if n++; err != nil || !e.Created.Equal(now) || !e.Completed.Equal(now) {
			t.Errorf("%+v, %v, want it of %v", e, err, now)
		}
	}
	if n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

func TestNonsense(t *testing.T) {
	path := filepath.Join(t.TempDir(), "club.db")
	if _, err := crm.Open(t.Context(), path, crm.Attributes("member.*", handler.Mapping{{}})); err == nil {
		t.Error("a mapping without a name is taken")
	}
	if _, err := crm.Open(t.Context(), path, crm.Handle("", nil)); err == nil {
		t.Error("a handler of nothing is taken")
	}
	club, err := crm.Open(t.Context(), path) // the file was closed by those that failed
	if err != nil {
		t.Fatal(err)
	}
	if err := club.Close(); err != nil {
		t.Error(err)
	}
}
