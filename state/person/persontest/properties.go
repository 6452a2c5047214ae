package persontest

import (
	"fmt"
	"strings"

	"github.com/tidemill/tidemill/state/person"
)

var properties = []example{
	{"set overwrites, once only where absent, unset removes", "that is what the words mean", func(w *world) {
		w.apply(w.event("a", 1, set("s", "1"), once("o", "1"), set("u", "1")))
		w.apply(w.event("a", 2, set("s", "2"), once("o", "2"), unset("u"), once("s", "3"), unset("never")))
		w.holds("a", "s", "2", "o", "1")
	}},
	{"event time decides, not arrival", "several instances share the stream", func(w *world) {
		w.apply(w.event("a", 5, set("s", "5"), once("o", "5"), unset("u")))
		w.apply(w.event("a", 3, set("s", "3"), once("o", "3"), set("u", "3")))
		w.holds("a", "s", "5", "o", "3")
		w.apply(w.event("a", 6, once("u", "6")))
		w.holds("a", "s", "5", "o", "3", "u", "6")
	}},
	{"of equal times the place in the request decides", "a client does two things within a millisecond, and their ids are random", func(w *world) {
		for _, turn := range []bool{false, true} { // whichever has the greater id
			name := fmt.Sprint(turn)
			first, second := w.event(name, 1, set("s", "1"), once("o", "1"), set("u", "1")), w.event(name, 1, set("s", "2"), once("o", "2"), unset("u"))
			first.Order, second.Order = 7, 8
			if turn {
				first.Event, second.Event = second.Event, first.Event
			}
			w.apply(second)
			w.apply(first)
			w.holds(name, "s", "2", "o", "1")
			w.apply(first, second)
			w.holds(name, "s", "2", "o", "1")
			third, fourth := w.event(name, 1, set("s", "4")), w.event(name, 2, set("s", "3"))
			third.Order, fourth.Order = 1<<64-1, 0
			w.apply(third, fourth)
			w.holds(name, "s", "3", "o", "1")
		}
	}},
	{"the place in the request decides after a merge too", "an event processed before it counts as one after it", func(w *world) {
		first, second := w.event("anon", 1, set("s", "1"), once("o", "1")), w.event("user", 1, set("s", "2"), once("o", "2"))
		first.Order, second.Order = 8, 7
		w.apply(first, second)
		w.merge([]person.Outcome{person.Merged}, w.claim("user", "anon", 1))
		w.holds("user", "s", "1", "o", "2")
	}},
	{"of equal times and places the greater event id is later", "ties must not depend on arrival", func(w *world) {
		first, second := w.event("a", 1, set("s", "1"), once("o", "1"), set("u", "1")), w.event("a", 1, set("s", "2"), once("o", "2"), unset("u"))
		w.apply(second)
		w.apply(first)
		w.holds("a", "s", "2", "o", "1")
	}},
	{"inside one event once comes first, then set, then unset", "so it is for every producer", func(w *world) {
		w.apply(w.event("a", 1, unset("x"), set("x", "1"), once("x", "2"), set("y", "1"), once("y", "2"), once("z", "3"), unset("z")))
		w.holds("a", "y", "1")
	}},
	{"of one key given twice the last counts", "that is how JSON objects are read", func(w *world) {
		w.apply(w.event("a", 1, set("s", "2"), set("s", "1"), once("o", "2"), once("o", "1")))
		w.holds("a", "s", "1", "o", "1")
	}},
	{"what is unset stays unset for older events", "an event that comes late must not bring back what was removed", func(w *world) {
		w.apply(w.event("a", 1, set("k", "1")), w.event("a", 5, unset("k")))
		w.apply(w.event("a", 3, set("k", "3")), w.event("a", 4, once("k", "4")))
		w.holds("a")
		w.apply(w.event("a", 7, once("k", "7")), w.event("a", 6, unset("k")))
		w.holds("a", "k", "7")
	}},
	{"changes of one call are as good as changes of many", "batches are cut anywhere", func(w *world) {
		var all []person.Change
		for i := range 50 {
			all = append(all, w.event(fmt.Sprint("a", i%7), i*37%50, set("s", fmt.Sprint(i)), once("o", fmt.Sprint(i)), set(fmt.Sprint("k", i%3), "true")))
		}
		w.apply(all...)
		for _, c := range all {
			c.Distinct = "b" + c.Distinct[1:]
			w.apply(c)
		}
		for i := range 7 {
			var kv []string
			for k, v := range w.show(fmt.Sprint("a", i)).Properties {
				kv = append(kv, k, string(v))
			}
			w.holds(fmt.Sprint("b", i), kv...)
		}
	}},
	{"of several onces after an unset the latest counts, if one was before", "the rule must not depend on which of them was known first", func(w *world) {
		w.apply(w.event("a", 1, once("k", "1")), w.event("a", 2, unset("k")), w.event("b", 2, unset("k")))
		for _, i := range []int{4, 3, 5} {
			w.apply(w.event("a", i, once("k", fmt.Sprint(i))), w.event("b", i, once("k", fmt.Sprint(i))))
		}
		w.holds("a", "k", "5")
		w.holds("b", "k", "3")
	}},
	{"high-churn properties never reach a person", "they would rewrite it with every page", func(w *world) {
		w.apply(w.event("a", 1, set("$browser", `"x"`), set("$current_url", `"x"`), once("$ip", `"x"`), set("$geoip_city_name", `"x"`), set("$initial_browser", `"y"`)))
		w.holds("a", "$initial_browser", `"y"`)
	}},
	{"values are bytes as received", "a big number must not lose its end, nor an object its order", func(w *world) {
		kv := []string{"big", "12345678901234567890123", "order", `{"b":1, "a":2,"a":3}`, "null", "null", "list", "[1,2 ]", "exp", "1E+2",
			"", `"empty key"`, "k\"\\\xff", "1", "é", `"é"`, "escaped", `"\u00e9\\u0000"`, "no json", "{",
			"long", `"` + strings.Repeat("x", 100_000) + `"`}
		var ps []person.Property
		for i := 0; i < len(kv); i += 2 {
			ps = append(ps, set(kv[i], kv[i+1]))
		}
		w.apply(w.event("a", 0, ps...))
		w.apply(w.event("a", 1, set("more", "1")))
		w.holds("a", append(kv, "more", "1")...)
	}},
	{"U+0000 is U+FFFD, in keys and values", "PostgreSQL holds none, and a person is the same everywhere", func(w *world) {
		w.apply(w.event("a", 1, set("nul", `"a\u0000b\\u0000"`), set("ke\x00y", "1"), set("raw", "\"\x00\""), set("deep", `{"\u0000":["\\\u0000"]}`), set("gone\x00", "1"), once("o\x00", "1")))
		w.apply(w.event("a", 2, unset("gone\x00"), once("o\uFFFD", "2")))
		w.holds("a", "nul", "\"a\uFFFDb\\\\u0000\"", "ke\uFFFDy", "1", "raw", "\"\uFFFD\"", "deep", "{\"\uFFFD\":[\"\\\\\uFFFD\"]}", "o\uFFFD", "1")
	}},
	{"null is a value", "absent and null are different things", func(w *world) {
		w.apply(w.event("a", 1, set("k", "null")), w.event("a", 2, once("k", "1")))
		w.holds("a", "k", "null")
	}},
}
