package request

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/recent"
	"github.com/tidemill/tidemill/internal/sleep"
)

// What somebody may guess.
const (
	GuessesFree   = 10              // wrong tokens of one sender that are answered at once
	GuessForgiven = 6 * time.Second // after this one of them counts no more
	GuessPause    = time.Second     // what each further one waits for its answer
	GuessWaiting  = 64              // requests that wait at once; more are answered without
	guessWaiting1 = 8               // of them, of one sender
	guessSenders  = 4096            // that are remembered: less than a MB
	guessRecords  = 10              // log records in RefusalsEvery
)

// Guesses slows those down who try tokens or keys: by their address, in IPv6 by their network
// of 64 bits. It is asked about wrong ones only: the right one always passes, also from an
// address that guesses. It may be used by many.
type Guesses struct {
	log  *slog.Logger
	what string

	mu      sync.Mutex // guards what follows; held for work in memory only
	senders recent.Cache[netip.Prefix, sender]
	waiting int
	records int       // of the log since period
	period  time.Time // when the present RefusalsEvery began
}

// sender is one whose tokens were wrong.
type sender struct {
	until   time.Time // when the last of its guesses is forgiven
	waiting int
	wrong   int       // since it was logged
	logged  time.Time // zero: never
}

// NewGuesses makes one that logs to log who is slowed; what is guessed, in the plural.
func NewGuesses(log *slog.Logger, what string) *Guesses {
	return &Guesses{log: log, what: what, senders: recent.New[netip.Prefix, sender](guessSenders)}
}

// Wrong notes a wrong one. It returns whether there were too many of this sender; then it has
// waited for a while, unless too many wait already or ctx ended.
func (g *Guesses) Wrong(ctx context.Context, from netip.Addr) (slow bool) {
	s, slow, wait := g.note(from)
	if !wait {
		return slow
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
		s.waiting--
	}()
	_ = sleep.For(ctx, GuessPause)
	return slow
}

func (g *Guesses) note(from netip.Addr) (s *sender, slow, wait bool) {
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	who, _ := from.Prefix(bits) // the zero prefix for the zero address, which is one sender too
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	s = g.senders.Of(who)
	if s.until.Before(now) {
		s.until = now
	}
	s.wrong++
	s.until = s.until.Add(GuessForgiven)
	if s.until.Sub(now) <= GuessesFree*GuessForgiven {
		return s, false, false
	}
	s.until = now.Add((GuessesFree + 1) * GuessForgiven) // who goes on for hours is not remembered for days
	if now.Sub(s.logged) >= RefusalsEvery && g.mayLog(now) {
		// Logged when one address, or one network of IPv6, sent more than ten wrong tokens or keys in a
		// minute: at most once a minute for each, and ten times a minute in all.
		// To do: see whether it is a client of yours with an old token or key; else block the address.
		g.log.Warn("wrong tokens or keys from one address: their answers are slowed down", "what", g.what, "sender", who.String(), "count", s.wrong)
		s.logged, s.wrong = now, 0
	}
	if wait = g.waiting < GuessWaiting && s.waiting < guessWaiting1; wait {
		g.waiting++
		s.waiting++
	}
	return s, true, wait
}

// mayLog bounds what many senders together can fill the log with.
func (g *Guesses) mayLog(now time.Time) bool {
	if now.Sub(g.period) >= RefusalsEvery {
		g.period, g.records = now, 0
	}
	g.records++
	return g.records <= guessRecords
}
