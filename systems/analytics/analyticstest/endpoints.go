package analyticstest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

var endpoints = append(sendersOf(senders), []promise{
	{name: "A20 without a profile there is an event and no person", reason: "posthog-js sends anonymous events so by default", holds: noProfile},
	{name: "A20 a browser's $identify that comes before its earlier events still takes them", reason: "it bypasses the SDK's queue", holds: identifyFirst},
	{name: "A20 events are judged singly, and a refused one leaves a warning", reason: "one bad event must not cost its batch", holds: judgedSingly},
	{name: "A20 the address and the user agent of a server are not the person's", reason: "all users of a backend would live in one data centre", holds: serversAddress},
	{name: "A20 a resend gives the same row, also after the first was processed", reason: "clients that saw no answer send again", holds: resentLater},
}...)

// A request as an SDK makes it.
type request struct {
	path, contentType, body string
	header                  []string // name, value…
	gzip                    bool
	status                  int
	answer                  string // what the body must be, or begin with
}

// A sender is an SDK's traffic, sent twice, and its expected result.
type sender struct {
	name     string
	requests func(now string) []request
	events   []string // "name distinct_id", sorted
	people   []string // distinct ids of each person, the surviving one first
	has      map[string]string
}

const v1Headers = "PostHog-Sdk-Info\x00posthog-node/5.70.0\x00PostHog-Attempt\x001\x00PostHog-Request-Id\x0000000000-0000-4000-8000-000000000099\x00User-Agent\x00posthog-node/5.70.0"

func basic(key string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(key+":"))
}

var senders = []sender{
	{name: "posthog-node on /batch/", requests: func(now string) []request {
		ev := func(n int, name, who, props string) string {
			return fmt.Sprintf(`{"event":%q,"distinct_id":%q,"uuid":%q,"timestamp":%q,"properties":{"$lib":"posthog-node","$lib_version":"5.70.0","$is_server":true%s}}`, name, who, uid(n), now, props)
		}
		body := fmt.Sprintf(`{"api_key":%q,"sent_at":%q,"batch":[%s]}`, Key, now, strings.Join([]string{
			ev(1, "signup", "user", ""), ev(2, "$identify", "user", `,"$set":{"plan":"pro"},"$set_once":{"first":1}`),
			ev(3, "$create_alias", "user", `,"distinct_id":"user","alias":"old"`), ev(4, "$groupidentify", "$company_acme", `,"$group_type":"company"`)}, ","))
		return []request{{path: "/batch/", contentType: "application/json", body: body, gzip: true, header: []string{"Content-Encoding", "gzip", "User-Agent", "posthog-node/5.70.0"}, status: 200, answer: `{"status":"Ok"}`}}
	}, events: []string{"$create_alias user", "$groupidentify $company_acme", "$identify user", "signup user"},
		people: []string{"user old"}, has: map[string]string{"user": `first=1 plan="pro"`}},
	{name: "posthog-js on /e/", requests: func(now string) []request {
		ev := func(n int, name, props, more string) string {
			return fmt.Sprintf(`{"event":%q,"uuid":%q,"timestamp":%q,"properties":{"token":%q,"$lib":"web"%s}%s}`, name, uid(n), now, Key, props, more)
		}
		whole := fmt.Sprintf(`{"api_key":%q,"sent_at":%q,"batch":[%s]}`, Key, now,
			ev(1, "$pageview", `,"distinct_id":"anon","$current_url":"https://example.org/","$browser":"Firefox"`, `,"$set_once":{"$initial_utm_source":null}`))
		form := url.Values{"data": {base64.StdEncoding.EncodeToString([]byte("[" + ev(2, "$identify", `,"distinct_id":"user","$anon_distinct_id":"anon"`, `,"$set":{"name":"Ada"}`) + "]"))}}.Encode()
		return []request{
			{path: "/e/?ip=1&_=1700000000000&ver=1.449.2&compression=gzip-js", contentType: "text/plain", body: whole, gzip: true, status: 200, answer: `{"status":"Ok"}`},
			{path: "/e/?compression=base64", contentType: "application/x-www-form-urlencoded", body: form, status: 200, answer: `{"status":"Ok"}`},
			{path: "/e/?beacon=1", contentType: "text/plain", body: "[" + ev(3, "$pageleave", `,"distinct_id":"anon"`, "") + "]", status: 204},
		}
	}, events: []string{"$identify user", "$pageleave anon", "$pageview anon"}, people: []string{"user anon"},
		has: map[string]string{"user": `$initial_utm_source=null name="Ada"`}},
	{name: "posthog v1", requests: func(now string) []request {
		body := fmt.Sprintf(`{"created_at":%q,"batch":[{"event":"pay","uuid":%q,"distinct_id":"user","timestamp":%q,"properties":{"$set":{"a":1}}},`+
			`{"event":"silent","uuid":%q,"distinct_id":"ghost","timestamp":%q,"options":{"process_person_profile":false},"properties":{}},`+
			`{"event":"bad","uuid":%q,"distinct_id":"null","timestamp":%q}]}`, now, uid(1), now, uid(2), now, uid(3), now)
		return []request{{path: "/i/v1/analytics/events", contentType: "application/json", body: body, status: 200,
			header: append(strings.Split(v1Headers, "\x00"), "Authorization", "Bearer "+Key, "PostHog-Request-Timestamp", now),
			answer: fmt.Sprintf(`{"results":{%q:{"result":"ok"},%q:{"result":"ok"},%q:{"result":"drop"`, uid(1), uid(2), uid(3))}}
	}, events: []string{"pay user", "silent ghost"}, people: []string{"user"}, has: map[string]string{"user": "a=1"}},
	{name: "segment's analytics-node on /v1/batch", requests: func(now string) []request {
		ev := func(n int, call string) string {
			return fmt.Sprintf(`{"messageId":"node-next-%d","timestamp":%q,"context":{"library":{"name":"@segment/analytics-node","version":"3.1.0"}},%s}`, n, now, call)
		}
		body := fmt.Sprintf(`{"writeKey":%q,"sentAt":%q,"batch":[%s]}`, Key, now, strings.Join([]string{
			ev(1, `"type":"track","event":"Order","userId":"user","properties":{"total":1}`), ev(2, `"type":"identify","userId":"user","anonymousId":"anon","traits":{"email":"a@b.c"}`),
			ev(3, `"type":"track","event":"Visit","anonymousId":"anon"`), ev(4, `"type":"alias","userId":"user","previousId":"old"`), ev(5, `"type":"alias","userId":"user","previousId":"user"`),
			ev(6, `"type":"group","userId":"user","groupId":"acme"`)}, ","))
		return []request{{path: "/v1/batch", contentType: "application/json", body: body, header: []string{"Authorization", basic(Key), "User-Agent", "analytics-node-next/latest"}, status: 200, answer: `{"success":true}`}}
	}, events: []string{"$create_alias user", "$create_alias user", "$groupidentify user", "$identify user", "Order user", "Visit anon"},
		people: []string{"user anon old"}, has: map[string]string{"user": `email="a@b.c"`}},
	{name: "segment's analytics.js on the short paths", requests: func(now string) []request {
		one := func(path, id, call string) request {
			return request{path: path, contentType: "text/plain", status: 200, answer: `{"success":true}`,
				body: fmt.Sprintf(`{"writeKey":%q,"messageId":%q,"timestamp":%q,"sentAt":%q,%s}`, Key, id, now, now, call)}
		}
		return []request{one("/v1/p", "m1", `"type":"page","anonymousId":"anon","properties":{"url":"https://example.org/"}`), one("/v1/i", "m2", `"userId":"user","anonymousId":"anon","traits":{"n":1}`),
			one("/v1/t", "m3", `"event":"Click","userId":"user","anonymousId":"anon"`)}
	}, events: []string{"$identify user", "$pageview anon", "Click user"}, people: []string{"user anon"}, has: map[string]string{"user": "n=1"}},
	{name: "a native SDK", requests: func(now string) []request {
		body := fmt.Sprintf(`{"sent_at":%q,"events":[{"event":"visit","distinct_id":"anon","event_id":%q,"timestamp":%q,"context":{"url":"https://example.org/","screen_width":99999}},`+
			`{"event":"$identify","distinct_id":"user","anonymous_id":"anon","event_id":%q,"timestamp":%q,"user_properties":{"plan":"pro"}},{"event":"","distinct_id":"user"}]}`, now, uid(1), now, uid(2), now)
		return []request{
			{path: "/v1/batch", contentType: "text/plain", body: body, gzip: true, header: []string{"x-api-key", Key}, status: 202, answer: `{"ok":true,"count":2,"dropped":1}`},
			{path: "/v1/import", contentType: "application/json", header: []string{"x-api-key", Key}, status: 202, answer: `{"ok":true,"count":1`,
				body: fmt.Sprintf(`{"events":[{"event":"past","distinct_id":"user","event_id":%q,"timestamp":"2001-02-03T04:05:06Z"}]}`, uid(3))},
		}
	}, events: []string{"$identify user", "past user", "visit anon"}, people: []string{"user anon"}, has: map[string]string{"user": `plan="pro"`}},
	{name: "CloudEvents", requests: func(now string) []request {
		ev := func(id, typ, who string) string {
			return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/shop","type":%q,"subject":%q,"time":%q,"data":{"$set":{%q:1}}}`, id, typ, who, now, typ)
		}
		key := []string{"x-api-key", Key}
		return []request{
			{path: "/v1/cloudevents", contentType: "application/cloudevents+json", body: ev("1", "structured", "user"), header: key, status: 202},
			{path: "/v1/cloudevents", contentType: "application/cloudevents-batch+json", body: "[" + ev("2", "batched", "user") + "," + ev("3", "batched", "user") + "]", header: key, status: 202},
			{path: "/v1/cloudevents", contentType: "application/json", body: `{"$set":{"binary":1}}`, status: 202,
				header: append([]string{"ce-specversion", "1.0", "ce-id", "4", "ce-source", "/shop", "ce-type", "binary", "ce-subject", "user", "ce-time", now}, key...)},
		}
	}, events: []string{"batched user", "batched user", "binary user", "structured user"}, people: []string{"user"},
		has: map[string]string{"user": "batched=1 binary=1 structured=1"}},
}

func sendersOf(all []sender) []promise {
	var ps []promise
	for _, s := range all {
		ps = append(ps, promise{name: "A20 " + s.name + " is understood, and its resend stored once", reason: "unmodified SDKs are pointed here", holds: s.send})
	}
	return ps
}

// send makes one request and checks its answer.
func (b *bench) send(r *request) {
	b.Helper()
	body := []byte(r.body)
	if r.gzip {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, err := w.Write(body)
		b.must(err)
		b.must(w.Close())
		body = z.Bytes()
	}
	req := httptest.NewRequestWithContext(b.Context(), "POST", r.path, bytes.NewReader(body))
	req.Header.Set("Content-Type", r.contentType)
	for i := 0; i+1 < len(r.header); i += 2 {
		req.Header.Set(r.header[i], r.header[i+1])
	}
	rec := httptest.NewRecorder()
	b.Door.ServeHTTP(rec, req)
	if rec.Code != r.status || !strings.HasPrefix(rec.Body.String(), r.answer) {
		b.Fatalf("POST %s answered %d %s, want %d %s", r.path, rec.Code, rec.Body, r.status, r.answer)
	}
}

func (s sender) send(b *bench) {
	b.Helper()
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	for range 2 {
		for _, r := range s.requests(now) {
			b.send(&r)
		}
	}
	b.process()
	var got []string
	for _, e := range b.events() {
		got = append(got, e.Name+" "+e.DistinctID)
		if age := time.Since(e.Timestamp); e.Name != "past" && (age < -time.Minute || age > time.Minute) {
			b.Errorf("%s happened %v ago", e.Name, age)
		}
	}
	if slices.Sort(got); !slices.Equal(got, s.events) {
		b.Errorf("the warehouse has %q, want %q", got, s.events)
	}
	(&story{count: len(s.events), people: s.people, identified: identifiedOf(s.people), has: s.has}).check(b)
	for _, nobody := range []string{"ghost", "$company_acme", "null"} {
		if b.show(nobody) != nil {
			b.Errorf("%s became a person", nobody)
		}
	}
}

// identifiedOf are the survivors that others were merged into.
func identifiedOf(people []string) string {
	var out []string
	for _, line := range people {
		if survivor, _, merged := strings.Cut(line, " "); merged {
			out = append(out, survivor)
		}
	}
	return strings.Join(out, " ")
}

// capture posts events, each a JSON object, as posthog-js does.
func (b *bench) capture(events ...string) {
	b.Helper()
	b.send(&request{path: "/e/", contentType: "application/json", status: 200, answer: `{"status":"Ok"}`, header: []string{"User-Agent", safari},
		body: fmt.Sprintf(`{"api_key":%q,"batch":[%s]}`, Key, strings.Join(events, ","))})
}

func noProfile(b *bench) {
	b.capture(`{"event":"e","properties":{"distinct_id":"u","$process_person_profile":false,"$set":{"a":1}}}`, `{"event":"f","properties":{"distinct_id":"v","$process_person_profile":true}}`)
	b.process()
	b.wantBooks(2, 0, 0)
	if b.show("u") != nil || b.show("v") == nil {
		b.Error("want no person for the event without a profile, and one for that with it")
	}
	if e := b.one("e"); e.Person != derived("u") {
		b.Errorf("the event belongs to %v, want the id that the person would have", e.Person)
	}
}

func identifyFirst(b *bench) {
	s := b.start(options(), nil)
	b.capture(fmt.Sprintf(`{"event":"$identify","uuid":%q,"properties":{"distinct_id":"user","$anon_distinct_id":"anon"}}`, uid(1)))
	b.drained()
	b.capture(`{"event":"$pageview","properties":{"distinct_id":"anon"},"$set_once":{"$initial_referrer":"x"}}`)
	b.drained()
	s.stop()
	(&story{count: 2, people: []string{"user anon"}, identified: "user", has: map[string]string{"user": `$initial_referrer="x"`}}).check(b)
}

func judgedSingly(b *bench) {
	b.capture(`{"event":"good","distinct_id":"u"}`, `{"event":"bad","distinct_id":"undefined"}`, `{"event":"late","distinct_id":"u","timestamp":"tomorrow"}`, `{"distinct_id":"u"}`, `{"event":"good too","distinct_id":"u"}`)
	b.process()
	b.wantBooks(2, 0, 0)
	if got := b.warnings("illegal_distinct_id"); len(got) != 1 || got[0].Event != "bad" || got[0].Distinct != "undefined" {
		b.Errorf("warnings are %+v", got)
	}
	if got := b.warnings("invalid_event"); len(got) != 2 || !slices.ContainsFunc(got, func(w warehouse.Warning) bool { return w.Event == "late" }) {
		b.Errorf("warnings are %+v", got)
	}
}

func serversAddress(b *bench) {
	b.capture(`{"event":"browser","distinct_id":"u","properties":{"$lib":"web"}}`,
		`{"event":"server","distinct_id":"u","properties":{"$lib":"posthog-python"}}`, `{"event":"named","distinct_id":"u","properties":{"$lib":"posthog-python","$ip":"81.2.69.142"}}`)
	b.processWith(options(), b.agents())
	if e := b.one("browser"); e.IP == "" || e.UserAgent != safari || e.OS != "iOS" {
		b.Errorf("a browser's event has address %q, agent %q, system %q", e.IP, e.UserAgent, e.OS)
	}
	if e := b.one("server"); e.IP != "" || e.UserAgent != "" || e.OS != "" {
		b.Errorf("a server's event has address %q, agent %q, system %q", e.IP, e.UserAgent, e.OS)
	}
	if e := b.one("named"); e.IP != "81.2.69.142" {
		b.Errorf("an event that names its address has %q", e.IP)
	}
}

func resentLater(b *bench) {
	body := fmt.Sprintf(`{"events":[{"event":"e","distinct_id":"u","event_id":"order-1"},{"event":"f","distinct_id":"u","event_id":%q}]}`, uid(2))
	post := &request{path: "/v1/batch", contentType: "application/json", body: body, header: []string{"x-api-key", Key}, status: 202, answer: `{"ok":true,"count":2,"dropped":0}`}
	for range 3 {
		b.send(post)
		b.process()
		if b.fake {
			b.pass(7 * time.Hour)
		}
		if b.Reopen != nil {
			b.Harness = b.Reopen()
		}
	}
	first := b.one("e")
	if n := len(b.events()); n != 2 {
		b.Errorf("%d rows of 2 events", n)
	}
	if b.fake && time.Since(first.Timestamp) < 20*time.Hour {
		b.Errorf("the row has the time of the resend: %v", first.Timestamp)
	}
	b.wantBooks(2, 0, 0)
}
