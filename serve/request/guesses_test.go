package request_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/serve/request"
)

func TestGuessesAreSlowedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := request.NewGuesses(slog.New(slog.NewTextHandler(&log, nil)), "tokens")
		try := func(from string) (slow bool, took time.Duration) {
			begun := time.Now()
			slow = g.Wrong(t.Context(), netip.MustParseAddr(from))
			return slow, time.Since(begun)
		}
		for n := range request.GuessesFree {
			if slow, took := try("192.0.2.1"); slow || took != 0 {
				t.Fatalf("guess %d is slowed: %v, %v", n+1, slow, took)
			}
		}
		for n := range 90 {
			if slow, took := try("192.0.2.1"); !slow || took != request.GuessPause {
				t.Fatalf("guess %d after the free ones: %v, %v, want one that waits %v", n+1, slow, took, request.GuessPause)
			}
		}
		if slow, took := try("192.0.2.2"); slow || took != 0 {
			t.Errorf("another address is slowed: %v, %v", slow, took)
		}
		if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "sender=192.0.2.1/32 count=11\n") || !strings.Contains(got, "sender=192.0.2.1/32 count=60\n") {
			t.Errorf("a hundred in a minute and a half are logged as\n%s", got)
		}
		time.Sleep(2 * request.GuessForgiven) // one is over the limit, one makes room
		if slow, _ := try("192.0.2.1"); slow {
			t.Error("nothing was forgiven")
		}
		if slow, _ := try("192.0.2.1"); !slow {
			t.Error("all was forgiven at once")
		}
		time.Sleep((request.GuessesFree + 1) * request.GuessForgiven)
		for range request.GuessesFree {
			if slow, _ := try("192.0.2.1"); slow {
				t.Error("what was long ago still counts")
			}
		}
	})
}

func TestANetworkOfIPv6IsOneGuesser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := request.NewGuesses(slog.New(slog.DiscardHandler), "tokens")
		slowed := 0
		for n := range 100 {
			if g.Wrong(t.Context(), netip.MustParseAddr(fmt.Sprintf("2001:db8::%x:1", n))) {
				slowed++
			}
		}
		if slowed < 80 {
			t.Errorf("of 100 addresses of one network %d were slowed", slowed)
		}
		if g.Wrong(t.Context(), netip.MustParseAddr("2001:db8:0:1::1")) || g.Wrong(t.Context(), netip.Addr{}) {
			t.Error("another network is slowed")
		}
	})
}

func TestOnlySoManyGuessersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := request.NewGuesses(slog.New(slog.NewTextHandler(&log, nil)), "tokens")
		const senders, each = 100, 50
		var at, late [senders]int // answered at once, after the pause
		var all sync.WaitGroup
		for s := range senders {
			from := netip.AddrFrom4([4]byte{10, 0, 0, byte(s)})
			for range request.GuessesFree {
				g.Wrong(t.Context(), from)
			}
			var mu sync.Mutex
			for range each {
				all.Go(func() {
					begun := time.Now()
					if !g.Wrong(t.Context(), from) {
						t.Error("one was not slowed")
					}
					mu.Lock()
					defer mu.Unlock()
					if time.Since(begun) == 0 {
						at[s]++
					} else {
						late[s]++
					}
				})
			}
			synctest.Wait()
		}
		all.Wait()
		waited := 0
		for s := range senders {
			if waited += late[s]; late[s] > 8 || at[s]+late[s] != each {
				t.Errorf("of one sender %d waited and %d did not", late[s], at[s])
			}
		}
		if waited != request.GuessWaiting {
			t.Errorf("%d waited at once, want %d", waited, request.GuessWaiting)
		}
		if n := strings.Count(log.String(), "\n"); n != 10 {
			t.Errorf("%d senders are logged in %d records within a minute", senders, n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if begun := time.Now(); !g.Wrong(ctx, netip.AddrFrom4([4]byte{10, 0, 0, 1})) || time.Since(begun) != 0 {
			t.Error("who has gone still waits")
		}
	})
}
