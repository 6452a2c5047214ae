package deadlettertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// held is a dead letter in the model.
type held struct {
	seq       int64
	id        string
	lo        uint64
	cause     string
	payload   string
	original  string
	edited    bool
	replaying bool
	replays   int
	failures  int
	handed    int
	tries     int
	mark      tidemill.Mark // of the newest hand-out
	due       time.Time
	out       bool // under a lease
	back      bool // given back
}

// follows drives a store with random calls and compares every answer with a model. The
// model is written anew here, not taken from the rules that backends share.
func follows(t *testing.T, open func(t *testing.T, o deadletter.Options) Harness) {
	const limit = 5
	rapid.Check(t, func(r *rapid.T) {
		clock := NewClock()
		trim := rapid.Bool().Draw(r, "trim")
		f := fixture{open(t, deadletter.Options{Now: clock.Now, Lease: lease, Max: limit, Trim: trim}), clock}
		if f.Close != nil {
			defer f.Close()
		}
		source := f.Store.Open("p")
		var letters []*held // by seq
		var want tidemill.Books
		var marks []tidemill.Mark // every hand-out ever
		of := map[tidemill.Mark]string{}
		deaths := 0
		find := func(match func(*held) bool) *held {
			if i := slices.IndexFunc(letters, match); i >= 0 {
				return letters[i]
			}
			return nil
		}
		remove := func(h *held) { letters = slices.DeleteFunc(letters, func(x *held) bool { return x == h }) }
		ids := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"})
		r.Repeat(map[string]func(*rapid.T){
			"put": func(r *rapid.T) {
				deaths++
				l := f.letter(ids.Draw(r, "id"), uint64(deaths))
				l.Cause = fmt.Sprint("death ", deaths)
				err := f.Store.Put(t.Context(), []tidemill.DeadLetter{l})
				h := find(func(h *held) bool { return h.id == l.Message.ID })
				if h == nil && len(letters) == limit {
					oldest := find(func(h *held) bool { return !h.replaying })
					if !trim || oldest == nil {
						if err == nil {
							r.Fatal("there was no room, and no error")
						}
						return
					}
					remove(oldest)
					want.Lost++
				}
				if err != nil {
					r.Fatal(err)
				}
				if h == nil {
					h = &held{id: l.Message.ID}
					letters = append(letters, h)
					want.Accepted++
				} else {
					want.Accepted++ // every one is at another position
					want.Settled.Skipped++
					if h.replaying && h.handed > 0 {
						h.replays++
					}
				}
				h.lo, h.cause, h.replaying, h.failures = uint64(deaths), l.Cause, false, h.failures+1
				if h.payload != string(l.Message.Payload) {
					h.payload, h.original, h.edited = string(l.Message.Payload), "", false
				}
			},
			"edit": func(r *rapid.T) {
				id := ids.Draw(r, "id")
				to := rapid.SampledFrom([]string{"", "mended", "payload of " + id}).Draw(r, "payload")
				seen := ""
				if saw := rapid.SampledFrom([]string{"-", "", "mended", "payload of " + id}).Draw(r, "seen"); saw != "-" {
					seen = versionOf(id, saw)
				}
				err := f.Store.Edit(t.Context(), named(id), []byte(to), seen)
				h := find(func(h *held) bool { return h.id == id })
				switch {
				case h == nil:
					if !errors.Is(err, deadletter.ErrNotFound) {
						r.Fatalf("Edit of what is not there: %v", err)
					}
				case h.replaying:
					if !errors.Is(err, deadletter.ErrReplaying) {
						r.Fatalf("Edit of what is replaying: %v", err)
					}
				case h.payload != to && seen != "" && seen != versionOf(id, h.payload):
					if !errors.Is(err, deadletter.ErrChanged) {
						r.Fatalf("Edit of another version: %v", err)
					}
				case err != nil:
					r.Fatal(err)
				case h.payload != to:
					if !h.edited {
						h.original = h.payload
					}
					h.payload, h.edited = to, true
				}
			},
			"replay": func(r *rapid.T) {
				by := deadletter.Filter{Pipeline: "p", Max: rapid.IntRange(0, 3).Draw(r, "max"), Replays: rapid.IntRange(0, 3).Draw(r, "replays")}
				n, err := f.Store.Replay(t.Context(), by)
				if err != nil {
					r.Fatal(err)
				}
				k := 0
				for _, h := range letters {
					if !h.replaying && (by.Max == 0 || k < by.Max) && (by.Replays == 0 || h.replays < by.Replays) {
						h.replaying, h.handed, h.tries, h.due, h.out = true, 0, 0, time.Time{}, false
						k++
					}
				}
				if n != k {
					r.Fatalf("Replay: %d, want %d", n, k)
				}
			},
			"delete": func(r *rapid.T) {
				id := ids.Draw(r, "id")
				n, err := f.Store.Delete(t.Context(), deadletter.Filter{IDs: []string{id}})
				if err != nil {
					r.Fatal(err)
				}
				h := find(func(h *held) bool { return h.id == id && !h.replaying })
				if (n == 1) != (h != nil) {
					r.Fatalf("Delete %s: %d, there was %+v", id, n, h)
				}
				if h != nil {
					remove(h)
					want.Settled.Skipped++
				}
			},
			"receive": func(r *rapid.T) {
				var due []*held
				for _, h := range letters {
					if h.replaying && !h.due.After(clock.Now()) {
						due = append(due, h)
					}
				}
				if len(due) == 0 {
					r.Skip() // it would wait
				}
				n := rapid.IntRange(1, 3).Draw(r, "n")
				due = due[:min(n, len(due))]
				got := receive(t, source, n)
				if len(got) != len(due) {
					r.Fatalf("received %d, want %d", len(got), len(due))
				}
				for i, h := range due {
					m := got[i]
					h.handed++
					if m.ID != h.id || string(m.Payload) != h.payload || m.Handed != h.handed || m.Tries != h.tries || slices.Contains(marks, m.Mark) {
						r.Fatalf("received %s handed %d tries %d mark %+v, want %+v under a new mark", m.ID, m.Handed, m.Tries, m.Mark, h)
					}
					h.mark, h.due, h.out, h.back = m.Mark, clock.Now().Add(lease), true, false
					marks = append(marks, m.Mark)
					of[m.Mark] = m.ID
				}
			},
			"settle": func(r *rapid.T) {
				if len(marks) == 0 {
					r.Skip()
				}
				m := marks[len(marks)-1-rapid.IntRange(0, min(len(marks)-1, 4)).Draw(r, "which")]
				e := []tidemill.Settlement{{ID: of[m], Mark: m, Kind: tidemill.Partner, Cause: "again"}}
				switch rapid.IntRange(0, 4).Draw(r, "end") {
				case 0:
					e[0].Fate = tidemill.Delivered
				case 1:
					e[0].Fate = tidemill.Skipped
				case 2:
					e[0].Fate = tidemill.Dead
				case 3:
					e[0].End, e[0].CountTry, e[0].After = tidemill.Again, rapid.Bool().Draw(r, "burn"), time.Duration(rapid.IntRange(0, 2).Draw(r, "after"))*time.Second
				case 4:
					e[0].End = tidemill.Left
				}
				if err := source.Settle(t.Context(), e); err != nil {
					r.Fatal(err)
				}
				h := find(func(h *held) bool { return h.replaying && h.handed > 0 && !h.back && h.mark == m })
				if (e[0].Outcome == tidemill.Applied) != (h != nil) || e[0].Outcome == tidemill.Unanswered {
					r.Fatalf("Settle %+v took %d, there was %+v", e[0], e[0].Outcome, h)
				}
				switch {
				case h == nil || e[0].End == tidemill.Left:
				case e[0].End == tidemill.Again:
					h.due, h.out, h.back = clock.Now().Add(e[0].After), false, true
					if e[0].CountTry {
						h.tries++
					}
				case e[0].Fate == tidemill.Dead:
					h.replaying, h.replays, h.failures, h.cause = false, h.replays+1, h.failures+1, "again"
				case e[0].Fate == tidemill.Delivered:
					remove(h)
					want.Settled.Delivered++
				default:
					remove(h)
					want.Settled.Skipped++
				}
			},
			"time passes": func(r *rapid.T) {
				clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 500, 2000, 15000, 30000}).Draw(r, "ms")) * time.Millisecond)
			},
			"restart": func(r *rapid.T) {
				if f.Reopen == nil || rapid.IntRange(0, 9).Draw(r, "really") > 0 {
					r.Skip()
				}
				f.Store = f.Reopen(t)
				source = f.Store.Open("p")
				for _, h := range letters {
					if h.replaying && h.out && !f.Shared { // its holder is dead
						h.due, h.out = time.Time{}, false
					}
				}
			},
			"": func(r *rapid.T) {
				got := f.list(t, deadletter.Filter{})
				if len(got) != len(letters) {
					r.Fatalf("%d letters, want %d", len(got), len(letters))
				}
				for i, l := range got {
					h := letters[i]
					if h.seq == 0 {
						h.seq = l.Seq
					}
					if l.ID != h.id || l.Seq != h.seq || l.Mark.Lo != h.lo || l.Cause != h.cause || (l.State == deadletter.Replaying) != h.replaying ||
						l.Replays != h.replays || string(l.Payload) != h.payload || string(l.Original) != h.original || l.Edited.IsZero() == h.edited || len(l.History) != min(h.failures, deadletter.MaxHistory) {
						r.Fatalf("letter %+v, want %+v", l, h)
					}
				}
				want.Pending = uint64(len(letters))
				byCause := map[string]int{}
				for _, h := range letters {
					byCause[strings.TrimRight(h.cause, "0123456789")]++
				}
				g, err := f.Store.Groups(t.Context(), nil)
				if err != nil || len(g.Groups) != len(byCause) || g.Other != 0 {
					r.Fatalf("groups %+v, %v; want %v", g, err, byCause)
				}
				for _, one := range g.Groups {
					if byCause[strings.TrimRight(one.Cause, "#")] != one.Count {
						r.Fatalf("groups %+v; want %v", g, byCause)
					}
				}
				owners, err := f.Store.Owners(t.Context(), nil)
				if err != nil || len(owners) != min(len(letters), 1) || len(owners) > 0 && owners[0].Count != len(letters) {
					r.Fatalf("owners %+v, %v; want one of %d", owners, err, len(letters))
				}
				if b, err := source.(tidemill.Bookkeeper).Books(t.Context()); err != nil || b != want || b.Off() != 0 {
					r.Fatalf("books %+v, %v; want %+v", b, err, want)
				}
			},
		})
	})
}
