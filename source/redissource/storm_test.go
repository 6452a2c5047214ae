package redissource

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
)

// game is a stream on which two sources and a foreign consumer play at random.
type game struct {
	*table
	rng     *rand.Rand
	sources []*Source
	ids     []string                 // ever added
	held    [2][]*tidemill.Message   // by source: handed out, perhaps settled already
	ended   map[string]tidemill.Fate // by id
	books   tidemill.Count
}

func TestAnythingGoes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				b := &table{T: t, client: client, stream: testenv.Name("game")}
				g := &game{table: b, rng: rand.New(rand.NewPCG(seed, 7)), ended: map[string]tidemill.Fate{}}
				for i := range g.held {
					g.sources = append(g.sources, b.open(client, Options{Consumer: fmt.Sprint("c", i), Lease: time.Second, ClaimBatch: 1 + int(seed)*5, Drains: true}))
				}
				for range 200 {
					g.play()
				}
				g.finish()
			})
		}
	})
}

func (g *game) play() {
	who := g.rng.IntN(len(g.sources))
	s := g.sources[who]
	switch g.rng.IntN(12) {
	case 0, 1:
		g.ids = append(g.ids, g.add(g.rng.IntN(30))...)
	case 2, 3, 4:
		g.receive(who, 1+g.rng.IntN(40), 20*time.Millisecond)
	case 5, 6:
		g.settle(who)
	case 7:
		g.ackAny(s)
	case 8:
		if err := s.Keep(g.Context()); err != nil {
			g.Fatal(err)
		}
	case 9:
		if len(g.ids) > 0 {
			g.abandon("foreign", 1+g.rng.IntN(3))
		}
	case 10: // somebody acks without deleting
		if len(g.ids) > 0 {
			g.do("XACK", g.stream, Group, g.ids[g.rng.IntN(len(g.ids))])
		}
	case 11:
		if _, err := s.Drain(g.Context(), 1+g.rng.IntN(20)); err != nil {
			g.Fatal(err)
		}
		if _, err := s.CleanUp(g.Context(), time.Millisecond); err != nil {
			g.Fatal(err)
		}
	}
	g.balanced(s)
}

func (g *game) balanced(s *Source) tidemill.Books {
	g.Helper()
	books, err := s.Books(g.Context())
	if err != nil || books.Off() != 0 || books.Settled != g.books || books.Lost != 0 || int(books.Accepted) > len(g.ids) {
		g.Fatalf("books are %+v (%v), want %+v settled, nothing lost, %d accepted", books, err, g.books, len(g.ids))
	}
	return books
}

func (g *game) receive(who, n int, d time.Duration) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), d)
	defer cancel()
	into := make([]*tidemill.Message, n)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	got, err := g.sources[who].Receive(ctx, into)
	if err != nil && tidemill.KindOf(err) != tidemill.Timeout {
		g.Fatal(err)
	}
	for _, m := range into[:got] {
		if fate := g.ended[m.ID]; fate != tidemill.None {
			g.Fatalf("%s was handed out after it was %v", m.ID, fate)
		}
	}
	g.held[who] = append(g.held[who], into[:got]...)
}

func (g *game) anyEnd() tidemill.Settlement {
	switch g.rng.IntN(7) {
	case 0:
		return tidemill.Settlement{End: tidemill.Left}
	case 1:
		return tidemill.Settlement{End: tidemill.Again, After: time.Duration(g.rng.IntN(30)) * time.Millisecond, CountTry: true, Cause: "no"}
	case 2:
		return tidemill.Settlement{Fate: tidemill.Skipped}
	case 3:
		return tidemill.Settlement{Fate: tidemill.Dead}
	}
	return tidemill.Settlement{Fate: tidemill.Delivered}
}

// settle ends some of what a source handed out, some of it more than once.
func (g *game) settle(who int) {
	g.Helper()
	var ends []tidemill.Settlement
	for range g.rng.IntN(len(g.held[who]) + 1) {
		held := g.held[who]
		i := g.rng.IntN(len(held))
		end := g.anyEnd()
		end.ID, end.Mark = held[i].ID, held[i].Mark
		ends = append(ends, end)
		if g.rng.IntN(4) > 0 {
			held[i] = held[len(held)-1]
			g.held[who] = held[:len(held)-1]
		}
	}
	g.tell(g.sources[who], ends)
}

// ackAny settles some entries by ID alone; Redis knows whether they are pending.
func (g *game) ackAny(s *Source) {
	g.Helper()
	var ends []tidemill.Settlement
	want := map[string]tidemill.Outcome{}
	for range g.rng.IntN(min(len(g.ids), 20) + 1) {
		end := g.anyEnd()
		end.ID = g.ids[g.rng.IntN(len(g.ids))]
		if _, twice := want[end.ID]; twice {
			continue
		}
		want[end.ID] = stale
		if rows, _ := g.do("XPENDING", g.stream, Group, end.ID, end.ID, "1").ToArray(); len(rows) == 1 {
			if off := g.do("ZSCORE", s.keys.due, end.ID).Error() == nil; !off || end.End != tidemill.Again {
				want[end.ID] = applied
			}
		}
		ends = append(ends, end)
	}
	g.tell(s, ends)
	for _, e := range ends {
		if e.Outcome != want[e.ID] {
			g.Fatalf("ack of %s (%d) was answered %v, want %v", e.ID, e.End, e.Outcome, want[e.ID])
		}
	}
}

func (g *game) tell(s *Source, ends []tidemill.Settlement) {
	g.Helper()
	if err := s.Settle(g.Context(), ends); err != nil {
		g.Fatal(err)
	}
	for i := range ends {
		if e := &ends[i]; e.Outcome == applied && e.End == tidemill.Done {
			if fate := g.ended[e.ID]; fate != tidemill.None {
				g.Fatalf("%s was settled as %v after it was %v", e.ID, e.Fate, fate)
			}
			g.ended[e.ID] = e.Fate
			g.books.Add(e.Row())
		}
	}
}

// finish settles all there is: everything added has an end then.
func (g *game) finish() {
	g.Helper()
	for over := time.Now().Add(soon); len(g.ended) < len(g.ids); {
		if time.Now().After(over) {
			g.Fatalf("%d of %d entries ended", len(g.ended), len(g.ids))
		}
		for who, s := range g.sources {
			if _, err := s.Drain(g.Context(), 1000); err != nil {
				g.Fatal(err)
			}
			g.held[who] = nil
			g.receive(who, 1000, time.Second)
			var ends []tidemill.Settlement
			for _, m := range g.held[who] {
				ends = append(ends, tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered})
			}
			g.tell(s, ends)
		}
	}
	books := g.balanced(g.sources[0])
	if books.Pending != 0 || int(books.Accepted) != len(g.ids) || g.length() != 0 {
		g.Errorf("in the end the books are %+v for %d entries, and %d are left", books, len(g.ids), g.length())
	}
}
