package analyticsingest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
)

// always answers the same.
type always Admission

func (a always) Admit(context.Context, uuid.UUID, int, bool) (Admission, error) {
	return Admission(a), nil
}
func (a always) Bill(context.Context, uuid.UUID, int) error { return nil }

// contextMeter admits, and notes whether what it is asked in has ended.
type contextMeter struct{ ended error }

func (m *contextMeter) Admit(context.Context, uuid.UUID, int, bool) (Admission, error) {
	return Admitted, nil
}
func (m *contextMeter) Bill(ctx context.Context, _ uuid.UUID, _ int) error {
	m.ended = ctx.Err()
	return nil
}

// brokenMeter cannot be asked.
type brokenMeter struct{}

func (brokenMeter) Admit(context.Context, uuid.UUID, int, bool) (Admission, error) {
	return Limited, errors.New("connection refused")
}
func (brokenMeter) Bill(context.Context, uuid.UUID, int) error {
	return errors.New("connection refused")
}

func TestWhatCannotBeCountedIsLetIn(t *testing.T) {
	d := newTestIngest(t, func(o *Options) { o.Meter = brokenMeter{} })
	want(t, d.send("/batch/", posted(ph)), 200, `{"status":"Ok"}`)
}

func TestTheRateIsTheSumOfAMinuteOfBuckets(t *testing.T) {
	now := received
	m := newMemoryMeter(100, 0, func() time.Time { return now })
	ask := func(n int) Admission {
		a, _ := m.Admit(t.Context(), goodProject, n, true)
		return a
	}
	for i, step := range []struct {
		after time.Duration
		n     int
		want  Admission
	}{
		{0, 99, Admitted},
		{0, 500, Admitted}, // the sum was below before it
		{0, 1, Limited},
		{49 * time.Second, 1, Limited},
		{10 * time.Second, 1, Limited}, // 59 s: the first bucket still counts
		{time.Second, 1, Admitted},     // 60 s: it does not
		{0, 98, Admitted},
		{0, 1, Admitted},
		{0, 1, Limited},
	} {
		now = now.Add(step.after)
		if got := ask(step.n); got != step.want {
			t.Errorf("step %d at %s: %d; want %d", i, now.Sub(received), got, step.want)
		}
	}
	if a, _ := m.Admit(t.Context(), otherProject, 1, true); a != Admitted {
		t.Error("one project's rate limits another")
	}
	now = now.Add(time.Hour)
	ask(1)
	if len(m.of) != 1 {
		t.Errorf("%d projects are remembered; want only the one that sent lately", len(m.of))
	}
}

func TestTheQuotaIsOfAMonthAndOfWhatWasKept(t *testing.T) {
	d := newTestIngest(t, func(o *Options) { o.Limits.Quota = 2 })
	d.now = time.Date(2026, 11, 30, 23, 59, 50, 0, time.UTC)
	send := func(id, wantBody string) {
		t.Helper()
		want(t, d.send("/batch/", posted(`{"event":"e","uuid":"`+id+`","distinct_id":"u"}`)), 200, wantBody)
	}
	send(id1, `{"status":"Ok"}`)
	send(id1, `{"status":"Ok"}`) // known: not billed again
	send(id2, `{"status":"Ok"}`)
	id3 := "0190b4f4-0000-7000-8000-000000000003"
	send(id3, `{"status":"Ok","quota_limited":["events"]}`)
	want(t, d.send("/v1/import", nativeBody(natAt), apiKey), 202, "*") // imports are not billed
	d.now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	send(id3, `{"status":"Ok"}`)
	if h := d.Handled(); h.Limited != 1 {
		t.Errorf("handled %+v; want 1 limited", h)
	}
}
