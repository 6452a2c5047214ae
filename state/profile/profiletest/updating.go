package profiletest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

var updating = []testcase{
	{"sets attributes, and keeps their bytes as they came", "a number of 20 digits is an id", func(w *world) {
		id := w.created(who("m-1", "", ""))
		for i, v := range []string{"12345678901234567890", "1.10", "-0", `"\u00e4\ud83d\ude00 \u0000 \ud800 ä"`, `{"b" : 1,"a":[1, 2.0e3 ],"b":2}`, "null", "true", ` "x" `, `""`, "[]"} {
			w.update(change(id, "e", -100+i, set("a", v)))
			w.holds(id, `{"a":`+v+`}`)
		}
		w.update(change(id, "f", 0, set("Ключ \"1\"", "1"), set("a", "2"), set("A", "3")))
		w.holds(id, `{"A":3,"a":2,"Ключ \"1\"":1}`)
	}},
	{"a late event does not overwrite what a newer one wrote", "retries and replays come late", func(w *world) {
		id := w.created(who("m-1", "", ""))
		w.update(change(id, "new", -10, set("plan", `"gold"`)))
		w.update(change(id, "old", -20, set("plan", `"silver"`), set("city", `"Kiel"`)))
		w.holds(id, `{"city":"Kiel","plan":"gold"}`)
		w.update(change(id, "old", -15, unset("plan")))
		w.holds(id, `{"city":"Kiel","plan":"gold"}`)
		w.update(change(id, "new", -5, unset("plan")))
		w.update(change(id, "old", -7, set("plan", `"silver"`)))
		w.holds(id, `{"city":"Kiel"}`)
	}},
	{"by arrival, what comes last wins whatever its time", "some senders' clocks are wrong", func(w *world) {
		id := w.created(who("m-1", "", ""))
		w.update(change(id, "a", 0, set("n", "1")))
		w.update(change(id, "b", -100, arrived(set("n", "2"))))
		w.holds(id, `{"n":2}`)
		w.update(change(id, "c", -200, arrived(set("n", "3"))), change(id, "c", -300, arrived(set("n", "0"))), change(id, "a", -300, arrived(unset("n"))))
		w.holds(id, `{}`)
		w.update(change(id, "d", -400, arrived(set("n", "4"))), change(id, "e", -1, set("n", "5")))
		w.holds(id, `{"n":4}`)
	}},
	{"an event without a time, and one from the future, is of now", "one wrong clock must not hold up those after it", func(w *world) {
		id := w.created(who("m-1", "", ""))
		c := change(id, "a", 1e6, set("n", "1"))
		w.update(c)
		w.clock.Advance(time.Second)
		c = change(id, "b", 0, set("n", "2"))
		c.At = time.Time{}
		w.update(c)
		w.holds(id, `{"n":2}`)
		w.update(change(id, "c", -1, set("n", "3")))
		w.holds(id, `{"n":2}`)
		w.clock.Advance(time.Second)
		w.update(change(id, "d", 2, set("n", "4")))
		w.holds(id, `{"n":4}`)
	}},
	{"between events of one time any order ends the same", "redelivery mixes them", func(w *world) {
		a, b := w.created(who("m-1", "", "")), w.created(who("m-2", "", ""))
		w.update(change(a, "x", -1, set("n", "1")), change(a, "y", -1, set("n", "2")), change(a, "z", -1, unset("m"), set("n", "3")), change(a, "x", -1, set("m", "1")))
		w.update(change(b, "x", -1, set("m", "1")), change(b, "z", -1, unset("m"), set("n", "3")), change(b, "y", -1, set("n", "2")), change(b, "x", -1, set("n", "1")))
		if x, y := w.get(a).Object(), w.get(b).Object(); !bytes.Equal(x, y) {
			w.Errorf("%s and %s", x, y)
		}
	}},
	{"set_once takes the earliest, and nothing where something was set", "the first purchase stays the first", func(w *world) {
		id := w.created(who("m-1", "", ""))
		w.update(change(id, "b", -10, once("first", "2"), once("n", "2")), change(id, "c", -5, once("first", "3")), change(id, "a", -20, once("first", "1")))
		w.holds(id, `{"first":1,"n":2}`)
		w.update(change(id, "s", -30, set("first", "0")), change(id, "d", -40, once("first", "9")))
		w.holds(id, `{"first":0,"n":2}`)
		w.update(change(id, "u", -3, unset("first")))
		w.holds(id, `{"n":2}`)
		w.update(change(id, "v", -2, once("first", "7")), change(id, "v", -1, once("first", "8")))
		w.holds(id, `{"first":7,"n":2}`)
	}},
	{"increments exactly", "money is no float", func(w *world) {
		id := w.created(who("m-1", "", ""))
		w.update(change(id, "a", -9, add("n", "1"), add("m", "0.1"), add("big", "12345678901234567890")))
		w.update(change(id, "b", -8, add("n", "41"), add("m", "0.2"), add("big", "1")), change(id, "c", -7, add("n", "-50"), add("m", "1e1")))
		w.holds(id, `{"big":12345678901234567891,"m":10.3,"n":-8}`)
		w.update(change(id, "d", -6, set("m", "12.50"), set("n", "null")), change(id, "e", -5, add("m", "1.5"), add("n", "2")))
		w.holds(id, `{"big":12345678901234567891,"m":14.00,"n":2}`)
	}},
	{"an increment counts each time it is sent", "who sends it twice must say so by a transaction", func(w *world) {
		id := w.created(who("m-1", "", ""))
		c := change(id, "a", -9, add("n", "1"))
		w.update(c, c)
		w.update(c)
		w.holds(id, `{"n":3}`)
	}},
	{"increments and what is set end the same in any order", "the first purchase may overtake the sign-up", func(w *world) {
		cs := func(id uuid.UUID) []profile.Change {
			return []profile.Change{change(id, "signup", -30, set("points", "100")), change(id, "buy", -20, add("points", "5")), change(id, "buy", -10, add("points", "7"))}
		}
		for i, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}} {
			id := w.created(who(fmt.Sprint("m-", i), "", ""))
			for _, k := range order {
				w.update(cs(id)[k])
			}
			w.holds(id, `{"points":112}`)
			w.update(change(id, "reset", -5, unset("points")), change(id, "late", -7, add("points", "50")))
			w.holds(id, `{}`)
			w.update(change(id, "buy", -4, add("points", "2")))
			w.holds(id, `{"points":2}`)
		}
	}},
	{"what was set and unset may be sent again, and again late", "the queue delivers at least once", func(w *world) {
		id := w.created(who("m-1", "", ""))
		cs := []profile.Change{change(id, "a", -9, set("x", "1"), once("y", "1")), change(id, "b", -8, unset("x"), set("z", "1")), change(id, "c", -7, set("z", "2"), once("y", "2"))}
		w.update(cs...)
		w.holds(id, `{"y":1,"z":2}`)
		w.clock.Advance(time.Hour)
		w.update(cs[2], cs[0], cs[1])
		w.update(cs[0])
		w.holds(id, `{"y":1,"z":2}`)
		if p := w.get(id); !p.Updated.Equal(start) {
			w.Errorf("updated %v, want %v: nothing was new", p.Updated, start)
		}
	}},
	{"says when attributes changed last", "people look for what is stale", func(w *world) {
		id := w.created(who("m-1", "", ""))
		w.clock.Advance(time.Minute)
		w.update(change(id, "a", -9, set("x", "1")))
		w.clock.Advance(time.Minute)
		w.found(id, who("m-1", "a@b.example", ""))
		p := w.get(id)
		if !p.Created.Equal(start) || !p.Updated.Equal(start.Add(time.Minute)) || p.Updated.Location() != time.UTC {
			w.Errorf("created %v, updated %v", p.Created, p.Updated)
		}
	}},
	{"applies the changes of a batch in their order, many at once", "how events are batched must not matter", func(w *world) {
		const n = 700
		asks := make([]profile.Ask, n)
		for i := range asks {
			asks[i] = who(fmt.Sprint("m-", i), "", "")
		}
		var cs []profile.Change
		got := w.ask(asks...)
		for i, a := range got {
			cs = append(cs, change(a.Profile, "a", -9, set("n", fmt.Sprint(i))), change(a.Profile, "b", -8, add("n", "1000")))
		}
		w.update(cs...)
		for _, i := range []int{0, 1, 255, 256, 257, n - 1} {
			w.holds(got[i].Profile, fmt.Sprintf(`{"n":%d}`, 1000+i))
		}
	}},
	{"keeps nothing of the caller's memory", "buffers are used again", func(w *world) {
		id := w.created(who("m-1", "", ""))
		v := []byte("111")
		w.update(profile.Change{Tenant: tenant, Profile: id, Attributes: []profile.Attribute{{Op: profile.Set, Key: "a", Value: v}, {Op: profile.Once, Key: "b", Value: v}, {Op: profile.Add, Key: "c", Value: v}}})
		copy(v, "222")
		p := w.get(id)
		copy(p.Attributes["a"], "333")
		w.holds(id, `{"a":111,"b":111,"c":111}`)
	}},
}

var refusing = []testcase{
	{"refuses a bad change by itself and applies the others", "one bad event must not hold up a batch", func(w *world) {
		id := w.created(who("m-1", "", ""))
		long := strings.Repeat("x", profile.MaxKey+1)
		bad := []profile.Attribute{{Key: "a", Value: []byte("1")}, {Op: 9, Key: "a", Value: []byte("1")}, set("", "1"), set(long, "1"), set("\xff", "1"), set("a\x00", "1"),
			set("a", ""), set("a", "nope"), set("a", "1 2"), set("a", `"`+"\xff"+`"`), set("a", `"`+strings.Repeat("x", profile.MaxValue)+`"`),
			set("a", strings.Repeat("[", profile.MaxDepth+1)+strings.Repeat("]", profile.MaxDepth+1)), add("a", `"1"`), add("a", "null"), add("a", "1e101"), add("a", "1e-101"), add("a", "1e99999999999")}
		var cs []profile.Change
		for _, a := range bad {
			cs = append(cs, change(id, "e", -9, set("other", "1"), a))
		}
		cs = append(cs, change(id, "e", -9, set("a", "1"), unset("a")), change(id, "good", -9, set("a", strings.Repeat("[", profile.MaxDepth)+strings.Repeat("]", profile.MaxDepth))))
		noTenant := cs[len(cs)-1]
		noTenant.Tenant = ""
		cs = append(cs, noTenant)
		failed := w.failures(cs...)
		for i := range cs {
			switch {
			case i == len(cs)-2:
				if failed[i] != nil {
					w.Errorf("the good one: %v", failed[i])
				}
			case i == len(cs)-1:
				w.refused(failed[i], tidemill.Validation, profile.ErrIdentity)
			default:
				if w.refused(failed[i], tidemill.Validation, profile.ErrChange); w.Failed() {
					w.Fatalf("change %d: %+v", i, cs[i])
				}
			}
		}
		if p := w.get(id); len(p.Attributes) != 1 {
			w.Errorf("got %s", p.Object())
		}
	}},
	{"a profile that is not there is not found, nor is another tenant's", "it may have been deleted meanwhile", func(w *world) {
		id := w.created(who("m-1", "", ""))
		other := change(id, "e", -9, set("a", "1"))
		other.Tenant = "club-2"
		failed := w.failures(change(uuid.UUID{7}, "e", -9, set("a", "1")), change(id, "e", -9, set("b", "2")), other, change(uuid.UUID{7}, "e", -9))
		for _, i := range []int{0, 2, 3} {
			w.refused(failed[i], tidemill.NotFound, profile.ErrNotFound)
		}
		if w.holds(id, `{"b":2}`); len(failed) != 3 {
			w.Errorf("failures: %v", failed)
		}
	}},
	{"adds to no text, and changes nothing of that change", "a change is whole or not at all", func(w *world) {
		id := w.created(who("m-1", "", ""))
		w.update(change(id, "a", -9, set("name", `"Ann"`), set("n", "1")))
		failed := w.failures(change(id, "b", -8, add("n", "1"), set("x", "1"), add("name", "1")), change(id, "c", -7, add("n", "10")))
		if w.refused(failed[0], tidemill.Business, profile.ErrNumber); len(failed) != 1 {
			w.Errorf("failures: %v", failed)
		}
		w.holds(id, `{"n":11,"name":"Ann"}`)
		w.update(change(id, "late", -10, add("name", "1"))) // was overwritten: nothing to add to
		w.holds(id, `{"n":11,"name":"Ann"}`)
	}},
	{"a sum has as many digits as a number can have", "one sender must not fill the memory", func(w *world) {
		id := w.created(who("m-1", "", ""))
		nines := strings.Repeat("9", 100)
		w.update(change(id, "a", -9, add("n", nines), set("m", nines+"9")))
		failed := w.failures(change(id, "b", -8, add("n", "1")), change(id, "b", -8, add("m", "1")))
		w.refused(failed[0], tidemill.Business, profile.ErrNumber)
		w.refused(failed[1], tidemill.Business, profile.ErrNumber)
		w.holds(id, `{"m":`+nines+`9,"n":`+nines+`}`)
	}},
	{"a profile has no more attributes than it can have, with those removed", "the memory of removals is kept too", func(w *world) {
		id := w.created(who("m-1", "", ""))
		var as []profile.Attribute
		for i := range profile.MaxAttributes {
			as = append(as, set(fmt.Sprint("k", i), "1"))
		}
		w.update(change(id, "a", -9, as...), change(id, "b", -8, unset("k0")))
		failed := w.failures(change(id, "c", -7, set("more", "1"), set("k1", "2")), change(id, "d", -6, set("k2", "2")), change(id, "e", -6, append(as, set("more", "1"))...))
		w.refused(failed[0], tidemill.Business, profile.ErrFull)
		w.refused(failed[2], tidemill.Validation, profile.ErrChange)
		if p := w.get(id); len(failed) != 2 || len(p.Attributes) != profile.MaxAttributes-1 || string(p.Attributes["k1"]) != "1" || string(p.Attributes["k2"]) != "2" {
			w.Errorf("failures %v; %d attributes", failed, len(p.Attributes))
		}
	}},
	{"a profile has no more bytes than it can have, and can be made smaller", "it is read and written whole", func(w *world) {
		id := w.created(who("m-1", "", ""))
		big := `"` + strings.Repeat("x", profile.MaxValue-2) + `"`
		var cs []profile.Change
		for i := range profile.MaxBytes/profile.MaxValue + 1 {
			cs = append(cs, change(id, "a", -9, set(fmt.Sprint("k", i), big)))
		}
		failed := w.failures(cs...)
		for _, err := range failed {
			w.refused(err, tidemill.Business, profile.ErrFull)
		}
		if len(failed) == 0 || len(failed) > 2 {
			w.Errorf("%d were refused, want the last", len(failed))
		}
		w.update(change(id, "b", -8, set("k0", "1")), change(id, "b", -8, set("z", "1")))
	}},
}
