package promise

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// found collects violations.
func found(judge func(Fault)) (all []string) {
	judge(func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) })
	return all
}

func TestAnEventIsStoredOnceOrDead(t *testing.T) {
	for _, c := range []struct {
		bad                bool
		came, stored, dead int
		wrong, lost        bool
	}{
		{came: 1, stored: 1}, {came: 3, stored: 1}, {stored: 1}, {},
		{came: 1, lost: true}, {came: 1, stored: 2, wrong: true}, {came: 1, dead: 1, wrong: true}, {came: 2, stored: 1, dead: 1, wrong: true},
		{bad: true, came: 1, dead: 1}, {bad: true, came: 2, dead: 2},
		{bad: true, came: 2, dead: 1, lost: true}, {bad: true, came: 1, dead: 2, wrong: true}, {bad: true, came: 1, stored: 1, dead: 1, wrong: true},
	} {
		lost := false
		wrong := found(func(fault Fault) { lost = Arrived("it", c.bad, c.came, c.stored, c.dead, fault) })
		if lost != c.lost || len(wrong) > 0 != c.wrong {
			t.Errorf("%+v is said to be lost: %v, and wrong: %q", c, lost, wrong)
		}
	}
}

func TestAnEntryEndsAckedOrWithALetter(t *testing.T) {
	letter := Letter{ID: "1-0", Original: "7", Error: "no", Attempts: MostRefusals, Time: "2026-11-21T10:00:00Z"}
	for _, c := range []struct {
		name  string
		of    Heard
		dead  bool
		wrong bool
	}{
		{"acked", Heard{Acked: 1}, false, false},
		{"dead", Heard{Refused: MostRefusals, Letters: []Letter{letter}}, true, false},
		{"gone without an ack", Heard{Times: 1}, false, true},
		{"dead without a letter", Heard{Refused: MostRefusals}, true, true},
		{"dead too soon", Heard{Refused: MostRefusals - 1, Letters: []Letter{letter}}, true, true},
	} {
		if wrong := found(func(fault Fault) { c.of.Ended("1-0", c.dead, fault) }); len(wrong) > 0 != c.wrong {
			t.Errorf("%s: found %q", c.name, wrong)
		}
	}
	for i, spoil := range []func(*Letter){func(*Letter) {}, func(l *Letter) { l.ID = "2-0" }, func(l *Letter) { l.Original = "8" }, func(l *Letter) { l.Error = "" },
		func(l *Letter) { l.Attempts-- }, func(l *Letter) { l.Time = "now" }} {
		l := letter
		spoil(&l)
		if wrong := found(func(fault Fault) { l.Check("1-0", "7", fault) }); len(wrong) > 0 != (i > 0) {
			t.Errorf("of %+v it finds %q", l, wrong)
		}
	}
}

// TestPersonsDoNotDependOnOrder also damages each of them.
func TestPersonsDoNotDependOnOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	people := NewPeople(rnd, 5)
	var events []*Event
	for n := range 300 {
		e := people.Draw(rnd, n, time.Unix(0, 0))
		if e.Change(rnd); n%3 == 0 {
			e.Claim(rnd, people, people.Claimed[n%len(people.Claimed)])
		}
		events = append(events, &e)
	}
	want := Persons(uuid.Nil, events, people.Owners)
	rnd.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	if got := Persons(uuid.Nil, events, people.Owners); !reflect.DeepEqual(got, want) {
		t.Error("another order makes other persons")
	}
	for who, p := range want {
		for i, spoil := range []func(*Person){func(*Person) {}, func(g *Person) { g.ID[0]++ }, func(g *Person) { g.Identified = !g.Identified },
			func(g *Person) { g.Properties["p9"] = "1" }, func(g *Person) { clear(g.Distinct) }} {
			got := &Person{p.ID, p.Identified, maps.Clone(p.Distinct), maps.Clone(p.Properties)}
			spoil(got)
			if wrong := found(func(fault Fault) { p.Check(who, got, fault) }); len(wrong) > 0 != (i > 0) {
				t.Errorf("of %+v it finds %q, want %+v", got, wrong, p)
			}
		}
		if wrong := found(func(fault Fault) { p.Check(who, nil, fault) }); len(wrong) != 1 {
			t.Errorf("nobody is there, and it finds %q", wrong)
		}
	}
	if users := slices.Collect(maps.Keys(want)); len(users) < 5 || len(people.Claimed) == 0 {
		t.Errorf("only %q were drawn", users)
	}
}
