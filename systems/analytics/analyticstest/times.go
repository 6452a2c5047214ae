package analyticstest

import (
	"fmt"
	"strings"
	"time"
)

var orders = []promise{
	{name: "A9 of two changes in one request the second is later, whatever their ids are", reason: "a client does both within a millisecond", holds: placeDecides},
	{name: "A9 a later request is later than an earlier one of the same millisecond", reason: "a client's batches are cut anywhere", holds: requestsInOrder},
	{name: "A9 latency and a kept time of sending move no event", reason: "a later event would lose against an earlier one that came by a slower line", holds: latencyMovesNothing},
}

// placeDecides sends many pairs, so that their ids come in both orders, without times and
// with equal ones. Each is processed twice.
func placeDecides(b *bench) {
	at := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	var events []string
	for i := range 20 {
		when := ""
		if i%2 > 0 {
			when = fmt.Sprintf(`,"timestamp":%q`, at)
		}
		for k, plan := range []string{"free", "pro"} {
			events = append(events, fmt.Sprintf(`{"event":"$set","distinct_id":"u%d","uuid":%q%s,"$set":{"plan":%q},"$set_once":{"first":%q}}`,
				i, uid(1+2*i+(k+i/2)%2), when, plan, plan))
		}
	}
	for range 2 {
		b.capture(events...)
		b.process()
		for i := range 20 {
			b.has(fmt.Sprint("u", i), map[string]string{"plan": `"pro"`, "first": `"free"`})
		}
	}
}

func requestsInOrder(b *bench) {
	now := time.Now().UTC()
	stamp := func(d time.Duration) string { return now.Add(d).Format("2006-01-02T15:04:05.000Z") }
	for _, k := range []int{1, 0} { // the earlier one comes second
		var events []string
		for i := range 20 {
			events = append(events, fmt.Sprintf(`{"event":"$set","distinct_id":"u%d","uuid":%q,"timestamp":%q,"$set":{"n":%d}}`, i, uid(1+2*i+(k+i)%2), stamp(-time.Second), k))
		}
		if k == 0 { // and has its events at higher positions
			events = append([]string{`{"event":"e","distinct_id":"other"}`}, events...)
		}
		b.send(&request{path: "/batch/", contentType: "application/json", status: 200,
			body: fmt.Sprintf(`{"api_key":%q,"sent_at":%q,"batch":[%s]}`, Key, stamp(time.Duration(k-2)*100*time.Millisecond), strings.Join(events, ","))})
	}
	b.process()
	for i := range 20 {
		b.has(fmt.Sprint("u", i), map[string]string{"n": "1"})
	}
}

// latencyMovesNothing makes the first request of a client arrive 20 s late, as after answers
// 503, and the second at once.
func latencyMovesNothing(b *bench) {
	now := time.Now().UTC()
	stamp := func(d time.Duration) string { return now.Add(d).Format("2006-01-02T15:04:05.000Z") }
	post := func(sent time.Duration, n int, at time.Duration) {
		b.send(&request{path: "/v1/batch", contentType: "application/json", header: []string{"x-api-key", Key}, status: 202,
			body: fmt.Sprintf(`{"sent_at":%q,"events":[{"event":"e%d","distinct_id":"u","timestamp":%q,"user_properties":{"n":%d,"$set_once":{"first":%d}}}]}`, stamp(sent), n, stamp(at), n, n)})
	}
	post(-20*time.Second, 1, -21*time.Second)
	post(0, 2, -15*time.Second)
	b.process()
	b.has("u", map[string]string{"n": "2", "first": "1"})
	for n, at := range []time.Duration{-21 * time.Second, -15 * time.Second} {
		if e := b.one(fmt.Sprint("e", n+1)); e.Timestamp.Format(time.RFC3339Nano) != now.Add(at).Truncate(time.Millisecond).Format(time.RFC3339Nano) {
			b.Errorf("event %d happened at %v, the client says %v", n+1, e.Timestamp, now.Add(at))
		}
	}
}
