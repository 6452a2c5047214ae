package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

func TestRetriesAndDeadLetters(t *testing.T) {
	few := 2
	ps := []partner.Partner{to("sick", func(p *partner.Partner) { p.MaxRetries = &few }), to("well")}
	in(t, delivery.Options{}, ps, func(w *world) {
		w.answers("sick", status(503, "try \xff later"))
		w.add(delivery.Standard, "shop", "e1", "page_view", "")
		rest(1500 * time.Millisecond)
		if p := w.of("shop", "e1", "sick"); p.State != delivery.StateDelayed || p.Tries < 1 || len(p.Attempts) != p.Tries || p.Attempts[0].Kind != tidemill.Partner || !strings.Contains(p.Why, "503") {
			t.Errorf("after the first try: %+v", p)
		}
		if p := w.of("shop", "e1", "well"); p.State != delivery.StateDelivered || p.Ended.IsZero() {
			t.Errorf("the healthy one: %+v", p)
		}
		rest(time.Minute)
		got := w.requests("sick")
		if len(got) != 3 {
			t.Fatalf("%d requests, want 3", len(got))
		}
		for i, want := range []time.Duration{time.Second, 2 * time.Second} {
			if wait := got[i+1].at.Sub(got[i].at); wait < want*3/4 || wait > want*5/4+10*time.Millisecond {
				t.Errorf("wait %d was %v, want %v ±25%%", i, wait, want)
			}
		}
		p := w.of("shop", "e1", "sick")
		if p.State != delivery.StateDead || p.Tries != 3 || len(p.Attempts) != 3 || !p.Attempts[2].At.Equal(p.Ended) || p.Attempts[2].Kind != tidemill.Partner {
			t.Errorf("in the end: %+v", p)
		}
		for l, err := range w.letters.List(context.Background(), deadletter.Filter{Pipeline: "s2s.sick"}) {
			if err != nil || string(l.Row) != `{"status":503,"bodyBase64":"dHJ5IP8gbGF0ZXI="}` || l.Kind != tidemill.Partner {
				t.Errorf("letter %v %s %v", err, l.Row, l.Kind)
			}
		}
		if h := health(w, "sick"); h.SuccessRate != 0 || h.Dead != 1 || h.LastError == "" || !h.LastSuccessAt.IsZero() {
			t.Errorf("health %+v", h)
		}
		if h := health(w, "well"); h.SuccessRate != 1 || h.P50 == 0 || h.LastSuccessAt.IsZero() {
			t.Errorf("health %+v", h)
		}
		w.answers("sick", nil)
		if n, err := w.letters.Replay(context.Background(), deadletter.Filter{Pipeline: "s2s.sick"}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		rest(time.Minute)
		if n := len(w.requests("sick")); n != 4 {
			t.Errorf("%d requests after the replay, want 4", n)
		}
		if p := w.of("shop", "e1", "sick"); p.State != delivery.StateDelivered || !strings.Contains(p.Why, "replay") || p.Tries != 3 || len(p.Attempts) != 3 || !p.Ended.After(p.Attempts[2].At) {
			t.Errorf("after the replay: %+v", p)
		}
		w.balanced()
	})
}

// TestOneLetterOfTwoDeaths: the same job is accepted twice and dies twice, and the books of its
// one dead letter know of both.
func TestOneLetterOfTwoDeaths(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("sick")}, func(w *world) {
		ctx := context.Background()
		if _, err := w.queues.Set(ctx, "s2s.sick", func(s *queue.Settings) { s.Failed = queue.Keep{Count: 10, Age: time.Hour} }); err != nil {
			t.Fatal(err)
		}
		w.answers("sick", status(400, "no"))
		w.add(delivery.Standard, "shop", "e1", "page_view", "")
		rest(time.Minute)
		if n, err := w.queues.Retry(ctx, queue.Filter{Queue: "s2s.sick"}); n != 1 || err != nil {
			t.Fatalf("retried %d jobs, %v", n, err)
		}
		rest(time.Minute)
		if n, err := w.letters.Count(ctx, deadletter.Filter{Pipeline: "s2s.sick"}); n != 1 || err != nil || len(w.requests("sick")) != 2 {
			t.Errorf("%d letters, %v, of %d requests; want 1 of 2", n, err, len(w.requests("sick")))
		}
		w.balanced()
	})
}

func health(w *world, name string) delivery.PartnerHealth {
	w.Helper()
	all, err := w.sys.Partners(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	for _, h := range all {
		if h.Partner == name {
			return h
		}
	}
	w.Fatalf("no health of %s", name)
	return delivery.PartnerHealth{}
}

// A partner's health shows what it accepted, whatever caused the rest, and how long it made us
// wait, even without success.
func TestHealthCountsWhatIsNoDelivery(t *testing.T) {
	batch := func(p *partner.Partner) {
		p.Workers, p.Batch = 1, partner.Batch{Items: 4, Head: "[", Tail: "]"}
		p.Items = partner.Items{List: "body", Failed: "item == 0"}
	}
	none := 0
	slow := func(p *partner.Partner) { p.MaxRetries = &none }
	in(t, delivery.Options{}, []partner.Partner{to("wrong"), to("absent"), to("halves", batch)}, func(w *world) {
		w.answers("wrong", status(400, "no"))
		w.answers("absent", status(404, "where?"))
		w.answers("halves", status(200, "[1,0,0,0]"))
		for n := range 4 {
			w.add(delivery.Standard, "shop", fmt.Sprint("e", n), "page_view", "")
		}
		rest(10 * time.Second)
		for name, code := range map[string]string{"wrong": "400", "absent": "404"} {
			if h := health(w, name); h.SuccessRate != 0 || !strings.Contains(h.LastError, code) || h.LastErrorAt.IsZero() || !h.LastSuccessAt.IsZero() {
				t.Errorf("%s: %+v", name, h)
			}
		}
		if h := health(w, "halves"); h.SuccessRate != 0.25 || h.LastError == "" || h.LastSuccessAt.IsZero() {
			t.Errorf("one of four was taken: %+v", h)
		}
		w.balanced()
	})
	in(t, delivery.Options{}, []partner.Partner{to("slow", slow)}, func(w *world) {
		w.slow = 5 * time.Second
		w.add(delivery.Standard, "shop", "e1", "page_view", "")
		rest(10 * time.Second)
		// latencies are right to within a fifth
		if h := health(w, "slow"); h.SuccessRate != 0 || h.P50 < 4*time.Second || h.P50 > 6*time.Second || h.P99 != h.P50 {
			t.Errorf("an answer that did not come within 3s: %+v", h)
		}
	})
}

func TestOutcomes(t *testing.T) {
	once := 0
	for _, c := range []struct {
		status int
		kind   tidemill.Kind
		state  string
	}{
		{400, tidemill.Validation, delivery.StateDead}, {404, tidemill.Validation, delivery.StateDead}, {422, tidemill.Validation, delivery.StateDead},
		{408, tidemill.Timeout, delivery.StateDead}, {429, tidemill.RateLimit, delivery.StateDead}, {500, tidemill.Partner, delivery.StateDead},
		{302, tidemill.Partner, delivery.StateDead}, {418, tidemill.Partner, delivery.StateDead}, {204, tidemill.NoKind, delivery.StateDelivered},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			in(t, delivery.Options{}, []partner.Partner{to("p", func(p *partner.Partner) { p.MaxRetries = &once })}, func(w *world) {
				w.answers("p", status(c.status, "text"))
				w.add(delivery.Standard, "shop", "e1", "page_view", "")
				rest(time.Minute)
				if p := w.of("shop", "e1", "p"); p.State != c.state || c.kind != tidemill.NoKind && !strings.HasPrefix(p.Why, c.kind.String()) {
					t.Errorf("%+v, want %s, %v", p, c.state, c.kind)
				}
				if h := health(w, "p"); h.LastSuccessAt.IsZero() != (c.state != delivery.StateDelivered) {
					t.Errorf("last success at %v", h.LastSuccessAt)
				}
				w.balanced()
			})
		})
	}
}

func TestRefusedCredentialsPauseThePartnerAlone(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("locked"), to("open")}, func(w *world) {
		w.answers("locked", status(401, ""))
		w.add(delivery.Standard, "shop", "e1", "page_view", "")
		w.add(delivery.Standard, "shop", "e2", "page_view", "")
		rest(30 * time.Minute)
		if n := len(w.requests("locked")); n > 40 {
			t.Errorf("%d requests in half an hour", n)
		}
		p := w.of("shop", "e2", "locked")
		if p.Tries != 0 || p.State == delivery.StateDead || !strings.Contains(p.Why, "401") {
			t.Errorf("%+v", p)
		}
		if p := w.of("shop", "e2", "open"); p.State != delivery.StateDelivered {
			t.Errorf("the other: %+v", p)
		}
		w.answers("locked", nil)
		if err := w.sys.CloseCircuit(context.Background(), "locked"); err != nil {
			t.Fatal(err)
		}
		rest(time.Second)
		if p := w.of("shop", "e2", "locked"); p.State != delivery.StateDelivered {
			t.Errorf("after mending: %+v", p)
		}
		w.balanced()
	})
}

func TestADeadPartnerDelaysNobodyAndKeepsItsEvents(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("dead"), to("alive")}, func(w *world) {
		w.answers("dead", status(500, ""))
		const each, seconds = 5, 600
		for i := range seconds {
			for j := range each {
				w.add(delivery.Standard, "shop", fmt.Sprintf("e%d-%d", i, j), "page_view", "")
			}
			rest(time.Second)
			if n := len(w.requests("alive")); n < each*(i+1)-each {
				t.Fatalf("the other has %d of %d", n, each*(i+1))
			}
		}
		tries := len(w.requests("dead"))
		if tries > 5+seconds/20 {
			t.Errorf("the dead one was asked %d times in ten minutes", tries)
		}
		w.answers("dead", nil)
		before := time.Now()
		rest(2 * time.Minute)
		h := health(w, "dead")
		if h.Depth() != 0 || h.Dead > tries/8 { // an event dies after eight tries
			t.Errorf("health %+v", h)
		}
		took := map[string]int{}
		for _, r := range w.requests("dead") {
			if r.status == 200 {
				took[r.key]++
				if r.at.Before(before) {
					t.Error("an answer before it was mended")
				}
			}
		}
		if len(took)+h.Dead != each*seconds {
			t.Errorf("%d events arrived and %d are dead, of %d", len(took), h.Dead, each*seconds)
		}
		for key, n := range took {
			if n != 1 {
				t.Errorf("%s arrived %d times", key, n)
			}
		}
		w.balanced()
	})
}

func TestAPartnerThatWasAwayIsNotOverrun(t *testing.T) {
	in(t, delivery.Options{Workers: 4, Most: 64}, []partner.Partner{to("p", func(p *partner.Partner) { p.Timeout = time.Minute })}, func(w *world) {
		w.slow = 100 * time.Millisecond
		w.answers("p", status(500, ""))
		for i := range 5000 {
			w.add(delivery.Standard, "shop", fmt.Sprintf("e%d", i), "page_view", "")
		}
		rest(time.Minute)
		w.answers("p", nil)
		w.concurrency()
		for h := health(w, "p"); h.Circuit.String() != "closed"; h = health(w, "p") {
			rest(100 * time.Millisecond)
		}
		if n := w.concurrency(); n > 8 {
			t.Errorf("%d requests at once when it was back", n)
		}
		rest(10 * time.Second)
		if n := w.concurrency(); n < 32 {
			t.Errorf("%d requests at once when it had proven itself, want many", n)
		}
		rest(time.Minute)
		if h := health(w, "p"); h.Depth() != 0 {
			t.Errorf("%+v", h)
		}
		rest(10 * time.Second)
		w.concurrency()
		w.add(delivery.Standard, "shop", "last", "page_view", "")
		rest(time.Second)
		w.balanced()
	})
}

func TestAnEventThatNobodyKnows(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
		if e, err := w.sys.Event(context.Background(), "shop", "x"); tidemill.KindOf(err) != tidemill.NotFound {
			t.Errorf("%+v, %v", e, err)
		}
		if err := w.sys.OpenCircuit(context.Background(), "nobody", 0); err == nil || !strings.Contains(err.Error(), "there are: p") {
			t.Error(err)
		}
	})
}

func TestACircuitIsOpenedByHand(t *testing.T) {
	in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
		rest(time.Second)
		if err := w.sys.OpenCircuit(context.Background(), "p", time.Minute); err != nil {
			t.Fatal(err)
		}
		w.add(delivery.Standard, "shop", "e1", "page_view", "")
		rest(30 * time.Second)
		if p := w.of("shop", "e1", "p"); p.State != delivery.StateWaiting || !strings.Contains(p.Why, "circuit is open") {
			t.Errorf("%+v", p)
		}
		if h := health(w, "p"); h.Circuit.String() != "open" || h.Depth() != 1 {
			t.Errorf("%+v", h)
		}
		rest(2 * time.Minute)
		if p := w.of("shop", "e1", "p"); p.State != delivery.StateDelivered {
			t.Errorf("after its time: %+v", p)
		}
	})
}

// TestACircuitThatOpensEndsNoPause holds that a time for which a partner is left alone, when it is over,
// ends neither a pause without an end nor that somebody has switched the partner off.
func TestACircuitThatOpensEndsNoPause(t *testing.T) {
	for name, shut := range map[string]func(w *world) error{
		"switched off": func(w *world) error { return w.sys.SwitchOff(context.Background(), "p") },
		"switched off, and its queue paused for a time": func(w *world) error {
			err := w.sys.SwitchOff(context.Background(), "p")
			_, err2 := w.queues.Set(context.Background(), delivery.QueueOf("p"), func(q *queue.Settings) { q.PausedUntil = time.Now().Add(time.Minute) })
			return errors.Join(err, err2)
		},
		"paused": func(w *world) error {
			_, err := w.queues.Set(context.Background(), delivery.QueueOf("p"), func(q *queue.Settings) { q.Paused = true })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, delivery.Options{}, []partner.Partner{to("p")}, func(w *world) {
				rest(time.Second)
				if err := errors.Join(shut(w), w.sys.OpenCircuit(context.Background(), "p", time.Minute)); err != nil {
					t.Fatal(err)
				}
				before := health(w, "p")
				rest(2 * time.Minute)
				if h := health(w, "p"); !h.Paused || !h.Off.Equal(before.Off) {
					t.Errorf("it was %+v, and is %+v", before, h)
				}
			})
		})
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		ps   []partner.Partner
		o    delivery.Options
		want string
	}{
		"twice":       {[]partner.Partner{to("p"), to("p")}, delivery.Options{}, "twice"},
		"a condition": {[]partner.Partner{to("p", func(p *partner.Partner) { p.When = "event.nothing > 1" })}, delivery.Options{}, "partner p: when"},
		"workers":     {nil, delivery.Options{Workers: 200, Most: 100}, "fewer"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, delivery.Options{}, nil, func(w *world) {
				if _, err := delivery.New(delivery.Parts{Queues: w.queues, DeadLetters: w.letters, Sent: w.sent, Partners: c.ps}, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
			})
		})
	}
}
