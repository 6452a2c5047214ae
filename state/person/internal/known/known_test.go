package known_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/known"
)

func ref(distinct string) person.Ref { return person.Ref{Project: uuid.UUID{1}, Distinct: distinct} }

// as is a batch that has read or written these distinct ids of one person.
func as(n uint64, moves bool, p known.Person, distinct ...string) known.Batch {
	b := known.Batch{Number: n, Moves: moves, Of: func(person.Ref) (known.Person, bool) { return p, true }}
	for _, d := range distinct {
		b.Refs = append(b.Refs, ref(d))
	}
	return b
}

func TestItKnowsThePersonsThatWereLastUsed(t *testing.T) {
	c := known.New(1 << 20)
	has := func(most int) (n int) {
		for i := range most {
			if _, ok := c.ID(ref(fmt.Sprint(i))); ok {
				n++
			}
		}
		return n
	}
	for i := range 1000 {
		c.Learn(as(0, false, known.Person{Registers: make([]byte, 10_000+i)}, fmt.Sprint(i%300)))
	}
	if n := has(300); n < 40 || n > 104 {
		t.Errorf("it has %d persons of about 11 KB; want 40 to 104 in 1 MiB", n)
	}
	for i := range 3000 {
		c.Learn(as(0, false, known.Person{Registers: make([]byte, 60)}, fmt.Sprint(i)))
	}
	if n := has(3000); n != 3000 {
		t.Errorf("it has %d of 3,000 small persons", n)
	}
}

func TestAPersonIsAsItWasLearned(t *testing.T) {
	c := known.New(1 << 20)
	at := func(milli int64) []person.Change {
		return []person.Change{{Ref: ref("a"), At: time.UnixMilli(milli)}}
	}
	p := known.Person{ID: uuid.UUID{7}, CreatedMilli: -5, UpdatedMilli: 1 << 40, Identified: true}
	c.Learn(as(0, false, p, "a", "b"))
	if id, ok := c.ID(ref("a")); !ok || id != p.ID {
		t.Errorf("the id is %v, %v", id, ok)
	}
	if n := len(c.News(at(-5))) + len(c.News(at(1<<40))); n > 0 {
		t.Errorf("%d changes of times that are known are news", n)
	}
	if n := len(c.News(at(-6))); n != 1 {
		t.Error("a change before all that is known is no news")
	}
	merges := []person.Merge{{Ref: ref("a"), Other: "b", At: time.UnixMilli(0)}}
	if rest, _ := c.Apart(merges, make([]person.Outcome, 1)); len(rest) > 0 {
		t.Error("distinct ids of one identified person are to be merged")
	}
	p.Identified = false
	c.Learn(as(0, false, p, "a", "b"))
	if rest, _ := c.Apart(merges, make([]person.Outcome, 1)); len(rest) != 1 {
		t.Error("a person that was not identified is not merged")
	}
}

// An answer that was read before a merge does not stay in the cache after it.
func TestLateAnswersAreNotKept(t *testing.T) {
	c, a := known.New(1<<20), []person.Ref{ref("a")}
	into := make([]uuid.UUID, 1)
	missing, moves := c.Resolve(a, into)
	if len(missing) != 1 {
		t.Fatalf("an empty cache knows %v", into)
	}
	c.Learn(as(1, true, known.Person{ID: uuid.UUID{7}}, "u"))
	c.Fill(a, []uuid.UUID{{9}}, missing, moves)
	if missing, moves = c.Resolve(a, into); len(missing) != 1 {
		t.Fatalf("an answer of before a merge is in the cache: %v", into)
	}
	c.Fill(a, []uuid.UUID{{7}}, missing, moves)
	if missing, _ = c.Resolve(a, into); len(missing) != 0 || into[0] != (uuid.UUID{7}) {
		t.Fatalf("an answer of now is not in the cache: %v, %v", missing, into)
	}
}

// A batch that comes later than a newer merge is not taken for the newest.
func TestBatchesMayComeInAnotherOrder(t *testing.T) {
	c := known.New(1 << 20)
	c.Learn(as(9, true, known.Person{ID: uuid.UUID{9}}, "a"))
	c.Learn(as(8, true, known.Person{ID: uuid.UUID{8}}, "a"))
	if id, ok := c.ID(ref("a")); ok {
		t.Errorf("after a late batch the id is %v; want it asked for", id)
	}
	c.Learn(as(10, false, known.Person{ID: uuid.UUID{9}}, "a"))
	if id, ok := c.ID(ref("a")); !ok || id != (uuid.UUID{9}) {
		t.Errorf("after a newer batch the id is %v, %v", id, ok)
	}
}

// An id that was resolved is not taken for a person that knows something, nor in its place.
func TestAnIDCoversNothing(t *testing.T) {
	c, a := known.New(1<<20), []person.Ref{ref("a")}
	into := make([]uuid.UUID, 1)
	missing, moves := c.Resolve(a, into)
	c.Fill(a, []uuid.UUID{{7}}, missing, moves)
	change := []person.Change{{Ref: a[0]}}
	if len(c.News(change)) != 1 {
		t.Error("a change of a person of which only the id is known is nothing new")
	}
	c.Learn(as(1, false, known.Person{ID: uuid.UUID{7}, CreatedMilli: math.MinInt64, UpdatedMilli: math.MaxInt64}, "a"))
	c.Fill(a, []uuid.UUID{{7}}, missing, moves)
	if len(c.News(change)) != 0 {
		t.Error("an id has taken the place of what was known")
	}
}
