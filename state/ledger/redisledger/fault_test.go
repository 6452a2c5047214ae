package redisledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
)

// again calls do until it succeeds: after a link has healed a connection or two may still
// have to be found dead.
func again(t *testing.T, do func() error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := do()
		if err == nil {
			return
		}
		if k := tidemill.KindOf(err); k != tidemill.Transient && k != tidemill.Timeout || time.Now().After(deadline) {
			t.Fatalf("%v is %v", err, k)
		}
	}
}

func TestLostAnswersAreFoundOut(t *testing.T) {
	testenv.Need(t)
	url, name := testenv.Redis(t), testenv.Name("l")
	direct := redistest.Connect(t, url)
	t.Cleanup(func() { remove(t, direct, name) })
	host := strings.TrimPrefix(url, "redis://")
	host, _, _ = strings.Cut(host, "/")
	link := testenv.NewLink(t, host)
	far := open(t, redistest.Connect(t, strings.Replace(url, host, link.Addr, 1)), redisledger.Options{Name: name})
	near := open(t, direct, redisledger.Options{Name: name})

	// lost sends a call whose answer is lost until one has arrived: one that meets a new
	// connection is cut before that.
	lost := func(call func(round int) error, arrived func() bool) {
		t.Helper()
		for round := range 50 {
			again(t, func() error { return far.Find(t.Context(), []*ledger.Entry{{Key: "warm"}}) })
			link.LoseAnswers(1)
			err := call(round)
			if err == nil || tidemill.KindOf(err) != tidemill.Transient {
				t.Fatalf("a call whose answer is lost: %v is %v, want transient", err, tidemill.KindOf(err))
			}
			link.Heal()
			if arrived() {
				return
			}
		}
		t.Fatal("no call arrived")
	}
	var es, before []*ledger.Entry
	find := func() {
		t.Helper()
		before = []*ledger.Entry{{Key: es[0].Key}, {Key: es[1].Key}}
		if err := near.Find(t.Context(), before); err != nil {
			t.Fatal(err)
		}
	}
	warm := []*ledger.Entry{{Key: "warm"}} // the scripts are known
	if err := far.Begin(t.Context(), warm, ledger.Begin{}); err != nil {
		t.Fatal(err)
	}
	warm[0].State = ledger.Done
	if err := far.End(t.Context(), warm); err != nil {
		t.Fatal(err)
	}
	lost(func(round int) error {
		es = []*ledger.Entry{{Key: fmt.Sprint("a", round), Call: 7}, {Key: fmt.Sprint("b", round), Call: 7}}
		return far.Begin(t.Context(), es, ledger.Begin{})
	}, func() bool { find(); return before[0].State == ledger.Running })
	if es[0].State != 0 || es[0].Token != 0 {
		t.Errorf("the caller knows %+v, want nothing", es[0])
	}
	again(t, func() error { return far.Begin(t.Context(), es, ledger.Begin{}) })
	for i, e := range es {
		if e.State != ledger.Fresh || e.Broken || e.Tries != 1 || e.Token != before[i].Token {
			t.Errorf("sent again: %+v, want what %+v was", e, before[i])
		}
	}
	es[0].State, es[0].Result, es[1].State = ledger.Done, []byte("r"), ledger.Failed
	lost(func(int) error { return far.End(t.Context(), es) }, func() bool { find(); return before[0].State == ledger.Done })
	again(t, func() error { return far.End(t.Context(), es) })
	if es[0].Stale || es[1].Stale || string(before[0].Result) != "r" || !es[0].Ended.Equal(before[0].Ended) || before[1].State != ledger.Failed {
		t.Errorf("ended as %+v and %+v, in the ledger %+v and %+v", es[0], es[1], before[0], before[1])
	}
}

func TestAServerThatIsKilledForgetsNothing(t *testing.T) {
	server := testenv.Start(t, testenv.PrivateRedis, "REDIS_SETTINGS=--appendfsync always")
	l := open(t, redistest.Connect(t, server.URL), redisledger.Options{})
	es := []*ledger.Entry{{Key: "done", Payload: []byte("p")}, {Key: "running", Holder: "h"}}
	if err := l.Begin(t.Context(), es, ledger.Begin{Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	es[0].State, es[0].Result = ledger.Done, []byte("r")
	if err := l.End(t.Context(), es[:1]); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := l.Find(t.Context(), []*ledger.Entry{{Key: "done"}}); err == nil || tidemill.KindOf(err) != tidemill.Transient {
		t.Errorf("Find without a server: %v is %v, want transient", err, tidemill.KindOf(err))
	}
	server.Restart()
	got := []*ledger.Entry{{Key: "done"}, {Key: "running", Holder: "h"}}
	again(t, func() error { return l.Begin(t.Context(), got, ledger.Begin{Lease: time.Hour}) })
	if got[0].State != ledger.Done || string(got[0].Result) != "r" || string(got[0].Payload) != "p" {
		t.Errorf("done: %+v", got[0])
	}
	if got[1].State != ledger.Fresh || !got[1].Broken || got[1].Token <= es[1].Token {
		t.Errorf("running: %+v, want it opened again, broken, under a newer token than %d", got[1], es[1].Token)
	}
}

func TestTokensGrowWhereRedisHasLostItsMemory(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		c, name := ledgertest.NewClock(), testenv.Name("l")
		t.Cleanup(func() { remove(t, client, name) })
		l := open(t, client, redisledger.Options{Name: name, Now: c.Now})
		old := &ledger.Entry{Key: "k"}
		for range 20 {
			old.Holder = "h"
			if err := l.Begin(t.Context(), []*ledger.Entry{old}, ledger.Begin{}); err != nil {
				t.Fatal(err)
			}
		}
		remove(t, client, name)
		c.Advance(time.Millisecond)
		now := &ledger.Entry{Key: "k"}
		if err := l.Begin(t.Context(), []*ledger.Entry{now}, ledger.Begin{}); err != nil {
			t.Fatal(err)
		}
		if now.Token <= old.Token {
			t.Errorf("token %d after %d", now.Token, old.Token)
		}
		old.State = ledger.Done
		if err := l.End(t.Context(), []*ledger.Entry{old}); err != nil || !old.Stale {
			t.Errorf("the End of before: stale %v, %v", old.Stale, err)
		}
	})
}

func TestTheServersClockDecides(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		name := testenv.Name("l")
		t.Cleanup(func() { remove(t, client, name) })
		l := open(t, client, redisledger.Options{Name: name})
		begin := func(key, holder string, lease time.Duration) *ledger.Entry {
			e := &ledger.Entry{Key: key, Holder: holder}
			if err := l.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{Lease: lease}); err != nil {
				t.Fatal(err)
			}
			return e
		}
		a := begin("short", "a", 20*time.Millisecond)
		begin("long", "a", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for ctx.Err() == nil {
			if b := begin("short", "b", time.Hour); b.State == ledger.Fresh {
				if b.Started.Sub(a.Started) < 20*time.Millisecond {
					t.Errorf("taken over after %v of 20ms", b.Started.Sub(a.Started))
				}
				break
			}
		}
		if ctx.Err() != nil {
			t.Error("the lease did not run out")
		}
		if e := begin("long", "b", time.Hour); e.State != ledger.Running {
			t.Errorf("got %v, want running", e.State)
		}
	})
}
