package analyticstest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidemill/tidemill"
)

var properties = []promise{
	{name: "A9 inside one event $set_once comes first, then $set, then $unset", reason: "the same event must mean the same to everybody", holds: insideOneEvent},
	{name: "A9 members beside the operations are a $set, and win over it", reason: "older SDKs send traits bare", holds: bareMembers},
	{name: "A9 any order and any batches end in the same properties", reason: "instances cannot keep an order between them", holds: anyOrder},
	{name: "A9 the same events again change nothing", reason: "a redelivery must be harmless", holds: appliedAgain},
	{name: "A9 what changes with every page is not a person's", reason: "each page view would rewrite the person", holds: highChurn},
	{name: "A9 values and payloads are kept to the byte", reason: "a number that went through a float is another number", holds: toTheByte},
	{name: "A9 what is no operation is ignored, and the person is there", reason: "an SDK's mistake must not cost the event", holds: noOperations},
	{name: "A9 a person is as old as its earliest event", reason: "late events must not make it younger", holds: times},
	{name: "A9 values that a database cannot hold fail no batch", reason: "NUL in a text is valid JSON", holds: strangeValues},
}

func insideOneEvent(b *bench) {
	b.put(entry("$set", "u", "user_properties", `{"$unset":["b","gone"],"$set":{"a":2,"b":2},"$set_once":{"a":1,"c":1}}`))
	b.put(entry("$set", "v", "properties", `{"$set":{"a":"set"},"$set_once":{"a":"once","c":"once"},"$unset":["d"]}`))
	b.process()
	b.has("u", map[string]string{"a": "2", "c": "1"})
	b.has("v", map[string]string{"a": `"set"`, "c": `"once"`})
}

func bareMembers(b *bench) {
	b.put(entry("$set", "u", "user_properties", `{"plan":"bare","$set":{"plan":"set","x":1},"$unset":[1,null,"y"],"y":2}`))
	b.put(entry("$set", "v", "properties", `{"$set":{"plan":"properties"}}`, "user_properties", `{"$set":{"plan":"user_properties"}}`))
	b.process()
	b.has("u", map[string]string{"plan": `"bare"`, "x": "1"})
	b.has("v", map[string]string{"plan": `"user_properties"`})
}

// operations are a history of one person, in order of time, that uses every rule.
var operations = []string{
	`{"$set_once":{"once":"first","late":"first"}}`, `{"$set":{"a":1,"b":1}}`, `{"$unset":["a","once"]}`, `{"$set_once":{"once":"second"},"$set":{"b":2}}`,
	`{"$unset":["late"]}`, `{"a":3}`, `{"$set_once":{"a":"never","c":"once"}}`, `{"$unset":["c"],"$set":{"d":1}}`,
}

// outcome is the result of operations: once is unset at 2 and written again at 3.
var outcome = map[string]string{"a": "3", "b": "2", "once": `"second"`, "d": "1"}

func anyOrder(b *bench) {
	rnd := rand.New(rand.NewPCG(9, 9))
	const people = 25
	var all []*tidemill.Message
	for who := range people {
		for _, i := range rnd.Perm(len(operations)) {
			all = append(all, entry("$set", fmt.Sprint("u", who), "user_properties", operations[i], "timestamp", at(i), "event_id", uid(1000*who+i)))
		}
	}
	for len(all) > 0 { // in several runs, so that some meet stored values
		n := min(len(all), 1+rnd.IntN(80))
		b.put(all[:n]...)
		all = all[n:]
		o := options()
		o.Batch, o.Lanes = 1+rnd.IntN(20), 1+rnd.IntN(3)
		b.processWith(o, nil)
	}
	for who := range people {
		b.has(fmt.Sprint("u", who), outcome)
	}
}

func appliedAgain(b *bench) {
	for round := range 3 {
		for i, op := range operations {
			m := entry("$set", "u", "user_properties", op, "timestamp", at(i), "event_id", uid(i))
			m.ID = fmt.Sprintf("round-%d-%d", round, i)
			b.put(m)
		}
		b.process()
		b.has("u", outcome)
	}
	b.wantBooks(uint64(len(operations)), uint64(2*len(operations)), 0)
}

func highChurn(b *bench) {
	for i, key := range []string{"$browser", "$browser_version", "$os", "$os_version", "$device_type", "$screen_width", "$screen_height", "$viewport_width",
		"$viewport_height", "$current_url", "$referrer", "$referring_domain", "$pathname", "$ip", "$geoip_country_code", "$geoip_city_name", "$timezone", "$language"} {
		b.put(entry("$set", "u", "timestamp", at(i), "user_properties", fmt.Sprintf(`{%q:1,"$set":{%q:2},"$set_once":{%q:3,"$initial_browser":4}}`, key, key, key)))
	}
	b.process()
	b.has("u", map[string]string{"$initial_browser": "4"})
}

func toTheByte(b *bench) {
	const bag = "{ \"z\" : 12345678901234567890, \"a\":1.0e2,\n\t\"z\": 0.10, \"u\":\"\\u00e9\\/\", \"é\":[ ] }"
	b.put(entry("e", "u", "properties", bag, "user_properties", `{"big":12345678901234567890,"f":1.50,"o":{"z":1, "a":2},"s":"\u00e9"}`))
	b.process()
	if e := b.one("e"); !same(e.Properties, bag) {
		b.Errorf("properties are\n%q\nreceived were\n%q", e.Properties, bag)
	}
	b.has("u", map[string]string{"big": "12345678901234567890", "f": "1.50", "o": `{"z":1, "a":2}`, "s": `"\u00e9"`})
}

func noOperations(b *bench) {
	for i, bag := range []string{`{"$set":[1],"$set_once":"x","$unset":{"a":1}}`, `not json`, `[1]`, `"text"`, `null`, `{"cut":`, `{"$set":null}`, ``} {
		b.put(entry("e", fmt.Sprint("u", i), "user_properties", bag, "properties", bag))
	}
	b.process()
	b.wantBooks(8, 0, 0)
	for i := range 8 {
		b.has(fmt.Sprint("u", i), map[string]string{})
	}
}

func times(b *bench) {
	b.put(entry("e", "u", "timestamp", at(5400)), entry("e", "u", "timestamp", at(-100)), entry("e", "u", "timestamp", at(10)))
	b.process()
	b.put(entry("e", "u", "timestamp", at(-86400)))
	b.process()
	p := b.somebody("u")
	if want := noon.Add(-24 * time.Hour); !p.Created.Equal(want) {
		b.Errorf("created %v, want %v", p.Created, want)
	}
	if want := noon.Add(time.Hour); !p.Updated.Equal(want) { // 13:30, floored to the hour
		b.Errorf("updated %v, want %v", p.Updated, want)
	}
}

func strangeValues(b *bench) {
	b.put(entry("nul", "u", "user_properties", `{"nul":"a\u0000b","\u0000":1}`, "properties", `{"n":"\u0000"}`),
		entry("surrogate", "v", "user_properties", `{"half":"\ud800"}`),
		entry("bytes", "w", "page_title", "\xff\xfe", "properties", "{\"a\":\"\xff\"}"),
		entry("good", "x", "user_properties", `{"a":1}`))
	b.process()
	b.wantBooks(4, 0, 0)
	b.has("x", map[string]string{"a": "1"})
	b.somebody("u")
	b.somebody("v")
}
