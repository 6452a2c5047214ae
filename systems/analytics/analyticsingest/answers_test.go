package analyticsingest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/systems/analytics/event"
)

var (
	apiKey  = header{"X-Api-Key": goodKey}
	basic   = header{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(goodKey+":"))}
	badUser = header{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("nobody:"))}
	v1      = header{"Authorization": "Bearer " + goodKey, "Content-Type": "application/json", "User-Agent": "posthog-node/5.70.0",
		"PostHog-Sdk-Info": "posthog-node/5.70.0", "PostHog-Attempt": "1", "PostHog-Request-Id": id1, "PostHog-Request-Timestamp": "2026-11-21T09:59:59.000Z"}
	cloud = header{"X-Api-Key": goodKey, "Content-Type": "application/cloudevents+json"}
)

func without(h header, name string) header {
	c := header{}
	for k, v := range h {
		if k != name {
			c[k] = v
		}
	}
	return c
}

func with(h header, name, value string) header {
	c := without(h, name)
	c[name] = value
	return c
}

// posted is a PostHog batch with a good key.
func posted(events ...string) string {
	return `{"api_key":"` + goodKey + `","batch":[` + strings.Join(events, ",") + `]}`
}

func nativeBody(events ...string) string { return `{"events":[` + strings.Join(events, ",") + `]}` }

func segmentBatchOf(events ...string) string {
	return `{"writeKey":"` + goodKey + `","batch":[` + strings.Join(events, ",") + `]}`
}

const (
	ph        = `{"event":"e","uuid":"` + id1 + `","distinct_id":"u"}`
	ph2       = `{"event":"e","uuid":"` + id2 + `","distinct_id":"u"}`
	phIllegal = `{"event":"e","uuid":"` + id2 + `","distinct_id":"null"}`
	nat       = `{"event":"e","event_id":"` + id1 + `","distinct_id":"u"}`
	natBad    = `{"event":"","distinct_id":"u"}`
	seg       = `{"type":"track","event":"e","messageId":"m1","userId":"u"}`
	segBad    = `{"type":"track","messageId":"m1","userId":"u"}`
	ce        = `{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"u"}`
)

func TestAnswers(t *testing.T) {
	full := func(d *testIngest) { d.intake.room = 0 }
	broken := func(d *testIngest) { d.intake.err = errors.New("the disk is full") }
	noProjects := func(d *testIngest) { d.projects.err = errors.New("connection refused") }
	limited := func(o *Options) { o.Meter = always(Limited) }
	limited429 := func(o *Options) { o.Meter, o.RateStatus = always(Limited), 429 }
	overQuota := func(o *Options) { o.Meter = always(OverQuota) }
	for _, c := range []struct {
		name    string
		to      string
		body    string
		headers header
		options func(*Options)
		state   func(*testIngest)
		status  int
		want    string // "*": any; a prefix with … at its end
		retry   string // Retry-After
		jobs    int
	}{
		{name: "native: taken", to: "/v1/batch", body: nativeBody(nat), headers: apiKey, status: 202, want: `{"ok":true,"count":1,"dropped":0}`, jobs: 1},
		{name: "native: slash at the end", to: "/v1/batch/", body: nativeBody(nat), headers: apiKey, status: 202, want: `{"ok":true,"count":1,"dropped":0}`, jobs: 1},
		{name: "native: double slash", to: "//v1/batch", body: nativeBody(nat), headers: apiKey, status: 202, want: `{"ok":true,"count":1,"dropped":0}`, jobs: 1},
		{name: "native: key in the body", to: "/v1/batch", body: `{"api_key":"` + goodKey + `","events":[` + nat + `]}`, status: 202, want: `{"ok":true,"count":1,"dropped":0}`, jobs: 1},
		{name: "native: beacon", to: "/v1/batch?beacon=1", body: nativeBody(nat), headers: apiKey, status: 204, want: "", jobs: 1},
		{name: "native: gzip as text/plain", to: "/v1/batch", body: gzipped(nativeBody(nat)), headers: with(apiKey, "Content-Type", "text/plain"), status: 202, want: `{"ok":true,"count":1,"dropped":0}`, jobs: 1},
		{name: "native: one bad of two", to: "/v1/batch", body: nativeBody(nat, natBad), headers: apiKey, status: 202, want: `{"ok":true,"count":1,"dropped":1}`, jobs: 1},
		{name: "native: none good", to: "/v1/batch", body: nativeBody(natBad, `7`), headers: apiKey, status: 400, want: `{"ok":false,"error":"no event of the batch can be taken; …`},
		{name: "native: no key", to: "/v1/batch", body: nativeBody(nat), status: 401, want: `{"ok":false,"error":"an API key is needed"}`},
		{name: "native: wrong key", to: "/v1/batch", body: nativeBody(nat), headers: header{"X-Api-Key": "wrong"}, status: 401, want: `{"ok":false,"error":"the API key is not known"}`},
		{name: "native: empty batch", to: "/v1/batch", body: nativeBody(), headers: apiKey, status: 400, want: `{"ok":false,…`},
		{name: "native: 501 events", to: "/v1/batch", body: nativeBody(many(501, nat)...), headers: apiKey, status: 400, want: `{"ok":false,…`},
		{name: "native: 6000 events", to: "/v1/batch", body: nativeBody(many(6000, nat)...), headers: apiKey, status: 400, want: `{"ok":false,…`},
		{name: "native: full", to: "/v1/batch", body: nativeBody(nat), headers: apiKey, state: full, status: 503, want: `{"retryable":true}`, retry: "5"},
		{name: "native: broken", to: "/v1/batch", body: nativeBody(nat), headers: apiKey, state: broken, status: 503, want: `{"retryable":true}`, retry: "5"},
		{name: "native: projects cannot be asked", to: "/v1/batch", body: nativeBody(nat), headers: apiKey, state: noProjects, status: 503, want: `{"retryable":true}`, retry: "5"},
		{name: "native: limited", to: "/v1/batch", body: nativeBody(nat), headers: apiKey, options: limited, status: 503, want: `{"retryable":true,"retry_after":10}`, retry: "10"},
		{name: "native: limited with 429", to: "/v1/batch", body: nativeBody(nat), headers: apiKey, options: limited429, status: 429, want: `{"ok":false,"error":"the project sends too many events a minute, please retry later","retry_after":10}`, retry: "10"},
		{name: "native: over quota", to: "/v1/batch", body: nativeBody(nat), headers: apiKey, options: overQuota, status: 200, want: `{"ok":true,"quota_limited":true}`},
		{name: "native: two encodings", to: "/v1/batch", body: nativeBody(nat), headers: with(apiKey, "Content-Encoding", "gzip, gzip"), status: 415, want: `{"ok":false,…`},
		{name: "native: br", to: "/v1/batch", body: nativeBody(nat), headers: with(apiKey, "Content-Encoding", "br"), status: 415, want: `{"ok":false,…`},

		{name: "import: taken", to: "/v1/import", body: nativeBody(natAt), headers: apiKey, status: 202, want: `{"ok":true,"count":1,"dropped":0,"batch_id":"import-…`, jobs: 1},
		{name: "import: not billed, no quota", to: "/v1/import", body: nativeBody(natAt), headers: apiKey, options: func(o *Options) { o.Limits.Quota = 1; o.Meter = nil }, status: 202, want: `*`, jobs: 1},
		{name: "import: without a time", to: "/v1/import", body: nativeBody(natAt, nat), headers: apiKey, status: 400, want: `{"ok":false,…`},
		{name: "import: all or nothing", to: "/v1/import", body: nativeBody(natAt, natBad), headers: apiKey, status: 400, want: `{"ok":false,…`},
		{name: "import: 5001 events", to: "/v1/import", body: nativeBody(many(5001, natAt)...), headers: apiKey, status: 400, want: `{"ok":false,…`},

		{name: "posthog: batch", to: "/batch/", body: posted(ph), status: 200, want: `{"status":"Ok"}`, jobs: 1},
		{name: "posthog: batch at /e/", to: "/e/", body: posted(ph), status: 200, want: `{"status":"Ok"}`, jobs: 1},
		{name: "posthog: one event", to: "/i/v0/e/", body: `{"api_key":"` + goodKey + `",` + ph[1:], status: 200, want: `{"status":"Ok"}`, jobs: 1},
		{name: "posthog: array", to: "/track", body: `[{"token":"` + goodKey + `",` + ph[1:] + `,{"event":"e","distinct_id":"u","properties":{"token":"` + goodKey + `"}}]`, status: 200, want: `{"status":"Ok"}`, jobs: 2},
		{name: "posthog: key in properties", to: "/capture/", body: `{"event":"e","properties":{"distinct_id":"u","token":"` + goodKey + `"}}`, status: 200, want: `{"status":"Ok"}`, jobs: 1},
		{name: "posthog: engage", to: "/engage/", body: `{"$token":"` + goodKey + `","$distinct_id":"u","$set":{"a":1}}`, status: 200, want: `{"status":"Ok"}`, jobs: 1},
		{name: "posthog: beacon", to: "/e/?compression=base64&beacon=1", body: posted(ph), status: 204, want: "", jobs: 1},
		{name: "posthog: one bad of two", to: "/batch/", body: posted(ph, phIllegal), status: 200, want: `{"status":"Ok"}`, jobs: 1},
		{name: "posthog: none good", to: "/batch/", body: posted(phIllegal), status: 400, want: `no event of the batch can be taken; …`},
		{name: "posthog: empty batch", to: "/batch/", body: posted(), status: 400, want: `the batch is empty`},
		{name: "posthog: empty array", to: "/e/", body: `[]`, status: 400, want: `the batch is empty`},
		{name: "posthog: no JSON", to: "/batch/", body: `{"api_key"`, status: 400, want: `the body is no JSON: …`},
		{name: "posthog: no key", to: "/batch/", body: `{"batch":[` + ph + `]}`, status: 401, want: `an API key is needed`},
		{name: "posthog: wrong key", to: "/batch/", body: `{"api_key":"wrong","batch":[` + ph + `]}`, status: 401, want: `the API key is not known`},
		{name: "posthog: mixed keys", to: "/e/", body: `[{"token":"` + goodKey + `",` + ph[1:] + `,{"token":"` + otherKey + `",` + ph2[1:] + `]`, status: 401, want: `the body has several API keys; …`},
		{name: "posthog: the page's own authorization is not a key", to: "/e/", body: posted(ph), headers: badUser, status: 200, want: `{"status":"Ok"}`, jobs: 1},
		{name: "posthog: full", to: "/batch/", body: posted(ph), state: full, status: 503, want: `the queue is full, please retry later`, retry: "5"},
		{name: "posthog: broken", to: "/batch/", body: posted(ph), state: broken, status: 503, want: `events cannot be kept now, please retry`, retry: "5"},
		{name: "posthog: limited", to: "/e/", body: posted(ph), options: limited, status: 503, want: `*`, retry: "10"},
		{name: "posthog: limited with 429", to: "/e/", body: posted(ph), options: limited429, status: 429, want: `*`, retry: "10"},
		{name: "posthog: over quota", to: "/e/", body: posted(ph), options: overQuota, status: 200, want: `{"status":"Ok","quota_limited":["events"]}`},
		{name: "posthog: too many", to: "/batch", body: posted(many(11, ph)...), options: func(o *Options) { o.Limits.Events = 10 }, status: 413, want: `*`},
		{name: "posthog: get without data", to: "GET /e/", status: 400, want: `*`},

		{name: "v1: taken", to: "/i/v1/analytics/events", body: posted(ph), headers: v1, status: 200, want: `{"results":{"` + id1 + `":{"result":"ok"}}}`, jobs: 1},
		{name: "v1: ai", to: "/i/v1/ai/events/", body: posted(ph), headers: v1, status: 200, want: `{"results":{"` + id1 + `":{"result":"ok"}}}`, jobs: 1},
		{name: "v1: one bad of two", to: "/i/v1/analytics/events", body: posted(ph, phIllegal), headers: v1, status: 200, want: `{"results":{"` + id1 + `":{"result":"ok"},"` + id2 + `":{"result":"drop","details":"illegal_distinct_id: …`, jobs: 1},
		{name: "v1: all bad is no error", to: "/i/v1/analytics/events", body: posted(phIllegal), headers: v1, status: 200, want: `{"results":{"` + id2 + `":{"result":"drop",…`},
		{name: "v1: ids as they were sent", to: "/i/v1/analytics/events", body: posted(strings.Replace(ph, id1, strings.ToUpper(id1), 1)), headers: v1, status: 200, want: `{"results":{"` + strings.ToUpper(id1) + `":{"result":"ok"}}}`, jobs: 1},
		{name: "v1: one did not fit", to: "/i/v1/analytics/events", body: posted(ph, ph2), headers: v1, state: func(d *testIngest) { d.intake.room = 1 }, status: 200, want: `{"results":{"` + id1 + `":{"result":"ok"},"` + id2 + `":{"result":"retry","details":"not_persisted"}}}`, retry: "5", jobs: 1},
		{name: "v1: full", to: "/i/v1/analytics/events", body: posted(ph), headers: v1, state: full, status: 503, want: `{"error":"full",…`, retry: "5"},
		{name: "v1: broken", to: "/i/v1/analytics/events", body: posted(ph), headers: v1, state: broken, status: 503, want: `{"error":"unkept","error_description":"events cannot be kept now, please retry","error_uri":"about:blank"}`, retry: "5"},
		{name: "v1: limited", to: "/i/v1/analytics/events", body: posted(ph), headers: v1, options: limited, status: 429, want: `{"error":"rate_limited",…`, retry: "10"},
		{name: "v1: over quota", to: "/i/v1/analytics/events", body: posted(ph), headers: v1, options: overQuota, status: 200, want: `{"results":{"` + id1 + `":{"result":"drop","details":"billing_limit_exceeded"}}}`},
		{name: "v1: no authorization", to: "/i/v1/analytics/events", body: posted(ph), headers: without(v1, "Authorization"), status: 401, want: `{"error":"unauthorized",…`},
		{name: "v1: wrong key", to: "/i/v1/analytics/events", body: posted(ph), headers: with(v1, "Authorization", "Bearer wrong"), status: 401, want: `{"error":"unauthorized",…`},
		{name: "v1: no sdk info", to: "/i/v1/analytics/events", body: posted(ph), headers: without(v1, "PostHog-Sdk-Info"), status: 400, want: `*`},
		{name: "v1: no attempt", to: "/i/v1/analytics/events", body: posted(ph), headers: without(v1, "PostHog-Attempt"), status: 400, want: `*`},
		{name: "v1: attempt 0", to: "/i/v1/analytics/events", body: posted(ph), headers: with(v1, "PostHog-Attempt", "0"), status: 400, want: `*`},
		{name: "v1: no request id", to: "/i/v1/analytics/events", body: posted(ph), headers: without(v1, "PostHog-Request-Id"), status: 400, want: `*`},
		{name: "v1: no request time", to: "/i/v1/analytics/events", body: posted(ph), headers: without(v1, "PostHog-Request-Timestamp"), status: 400, want: `*`},
		{name: "v1: no user agent", to: "/i/v1/analytics/events", body: posted(ph), headers: without(v1, "User-Agent"), status: 400, want: `*`},
		{name: "v1: not JSON", to: "/i/v1/analytics/events", body: posted(ph), headers: with(v1, "Content-Type", "text/plain"), status: 415, want: `{"error":"unsupported",…`},
		{name: "v1: an event without uuid", to: "/i/v1/analytics/events", body: posted(ph, `{"event":"e","distinct_id":"u"}`), headers: v1, status: 400, want: `*`},
		{name: "v1: a uuid twice", to: "/i/v1/analytics/events", body: posted(ph, ph), headers: v1, status: 400, want: `*`},
		{name: "v1: empty batch", to: "/i/v1/analytics/events", body: posted(), headers: v1, status: 400, want: `*`},

		{name: "segment: batch", to: "/v1/batch", body: segmentBatchOf(seg), headers: basic, status: 200, want: `{"success":true}`, jobs: 1},
		{name: "segment: batch, key in the body", to: "/v1/batch", body: segmentBatchOf(seg), status: 200, want: `{"success":true}`, jobs: 1},
		{name: "segment: short path", to: "/v1/b", body: segmentBatchOf(seg), headers: with(nil, "Content-Type", "text/plain"), status: 200, want: `{"success":true}`, jobs: 1},
		{name: "segment: import", to: "/v1/import", body: segmentBatchOf(seg), headers: basic, status: 200, want: `{"success":true}`, jobs: 1},
		{name: "segment: a bad one is dropped", to: "/v1/batch", body: segmentBatchOf(seg, segBad), headers: basic, status: 200, want: `{"success":true}`, jobs: 1},
		{name: "segment: all bad", to: "/v1/batch", body: segmentBatchOf(segBad), headers: basic, status: 200, want: `{"success":true}`},
		{name: "segment: track", to: "/v1/track", body: `{"event":"e","userId":"u","messageId":"m"}`, headers: basic, status: 200, want: `{"success":true}`, jobs: 1},
		{name: "segment: t", to: "/v1/t", body: `{"writeKey":"` + goodKey + `","event":"e","userId":"u"}`, status: 200, want: `{"success":true}`, jobs: 1},
		{name: "segment: page", to: "/v1/page", body: `{"userId":"u"}`, headers: basic, status: 200, want: `{"success":true}`, jobs: 1},
		{name: "segment: identify", to: "/v1/i", body: `{"userId":"u","traits":{}}`, headers: basic, status: 200, want: `{"success":true}`, jobs: 1},
		{name: "segment: no key", to: "/v1/b", body: `{"batch":[` + seg + `]}`, status: 401, want: `{"success":false,"message":"an API key is needed"}`},
		{name: "segment: wrong key", to: "/v1/batch", body: segmentBatchOf(seg), headers: badUser, status: 401, want: `{"success":false,"message":"the API key is not known"}`},
		{name: "segment: bad JSON", to: "/v1/batch", body: `{"batch":[`, headers: basic, status: 400, want: `{"success":false,…`},
		{name: "segment: 33 KB event", to: "/v1/track", body: `{"event":"e","userId":"u","x":"` + strings.Repeat("x", 33<<10) + `"}`, headers: basic, status: 400, want: `{"success":false,…`},
		{name: "segment: 33 KB event in a batch", to: "/v1/batch", body: segmentBatchOf(`{"event":"e","userId":"u","x":"` + strings.Repeat("x", 33<<10) + `"}`), headers: basic, status: 400, want: `{"success":false,…`},
		{name: "segment: 501 KB batch", to: "/v1/batch", body: segmentBatchOf(many(17, `{"type":"track","event":"e","userId":"u","x":"`+strings.Repeat("x", 30<<10)+`"}`)...), headers: basic, status: 400, want: `{"success":false,…`},
		{name: "segment: 2501 events", to: "/v1/batch", body: segmentBatchOf(many(2501, seg)...), headers: basic, status: 400, want: `{"success":false,…`},
		{name: "segment: full", to: "/v1/batch", body: segmentBatchOf(seg), headers: basic, state: full, status: 503, want: `{"success":false,…`, retry: "5"},
		{name: "segment: limited", to: "/v1/batch", body: segmentBatchOf(seg), headers: basic, options: limited, status: 429, want: `{"success":false,…`, retry: "10"},
		{name: "segment: over quota", to: "/v1/batch", body: segmentBatchOf(seg), headers: basic, options: overQuota, status: 200, want: `{"success":true}`},

		{name: "cloudevents: structured", to: "/v1/cloudevents", body: ce, headers: cloud, status: 202, want: `{"ok":true,"count":1,"dropped":0}`, jobs: 1},
		{name: "cloudevents: batch", to: "/v1/cloudevents", body: `[` + ce + `]`, headers: with(cloud, "Content-Type", "application/cloudevents-batch+json; charset=utf-8"), status: 202, want: `{"ok":true,"count":1,"dropped":0}`, jobs: 1},
		{name: "cloudevents: empty batch", to: "/v1/cloudevents", body: `[]`, headers: with(cloud, "Content-Type", "application/cloudevents-batch+json"), status: 202, want: `{"ok":true,"count":0,"dropped":0}`},
		{name: "cloudevents: a batch is an array", to: "/v1/cloudevents", body: ce, headers: with(cloud, "Content-Type", "application/cloudevents-batch+json"), status: 400, want: `*`},
		{name: "cloudevents: avro", to: "/v1/cloudevents", body: ce, headers: with(cloud, "Content-Type", "application/cloudevents+avro"), status: 415, want: `*`},
		{name: "cloudevents: bad", to: "/v1/cloudevents", body: `{"specversion":"1.0","id":"1"}`, headers: cloud, status: 400, want: `{"ok":false,…`},
		{name: "cloudevents: limited", to: "/v1/cloudevents", body: ce, headers: cloud, options: limited, status: 429, want: `*`, retry: "10"},
		{name: "cloudevents: token in the query", to: "/v1/cloudevents?access_token=" + goodKey, body: ce, headers: without(cloud, "X-Api-Key"), status: 202, want: `*`, jobs: 1},

		{name: "neither list", to: "/v1/batch", body: `{"foo":[]}`, headers: apiKey, status: 400, want: `{"ok":false,…`},
		{name: "both lists", to: "/v1/batch", body: `{"events":[` + nat + `],"batch":[` + seg + `]}`, headers: apiKey, status: 400, want: `{"ok":false,…`},
		{name: "unknown path", to: "/v2/nothing", status: 404, want: `{"ok":false,…`},
		{name: "wrong method", to: "PUT /batch/", status: 405, want: `{"ok":false,…`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newTestIngest(t, func(o *Options) {
				if c.options != nil {
					c.options(o)
				}
			})
			if c.state != nil {
				c.state(d)
			}
			w := d.send(c.to, c.body, c.headers)
			got := w.Body.String()
			prefix, open := strings.CutSuffix(c.want, "…")
			if w.Code != c.status || c.want != "*" && !open && got != c.want || open && !strings.HasPrefix(got, prefix) {
				t.Errorf("got %d %s\nwant %d %s", w.Code, got, c.status, c.want)
			}
			if r := w.Header().Get("Retry-After"); r != c.retry {
				t.Errorf("Retry-After %q; want %q", r, c.retry)
			}
			if len(d.intake.jobs) != c.jobs {
				t.Errorf("%d jobs; want %d", len(d.intake.jobs), c.jobs)
			}
			if strings.Contains(got, goodKey) {
				t.Errorf("the answer shows the key: %s", got)
			}
		})
	}
}

const natAt = `{"event":"e","event_id":"` + id1 + `","distinct_id":"u","timestamp":"2020-01-01T00:00:00Z"}`

func many(n int, event string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = event
	}
	return out
}

func TestNoneGoodSaysHowManyWereDropped(t *testing.T) {
	d := newTestIngest(t)
	w := d.send("/v1/batch", nativeBody(natBad, natBad, natBad), apiKey)
	if w.Code != 400 || !strings.HasSuffix(w.Body.String(), `,"dropped":3}`) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if len(d.warned) != 3 || d.warned[0].typ != event.Invalid || d.warned[0].reason == "" {
		t.Errorf("warned %+v; want each of the three, with its reason", d.warned)
	}
}

func TestWrongMethodsAreToldTheRightOnes(t *testing.T) {
	d := newTestIngest(t)
	for path, allow := range map[string]string{"/v1/batch": "POST, OPTIONS", "/e/": "GET, POST, OPTIONS", "/health": "GET, HEAD"} {
		w := d.send("DELETE "+path, "")
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != allow {
			t.Errorf("DELETE %s: %d, Allow %q; want 405, %q", path, w.Code, w.Header().Get("Allow"), allow)
		}
	}
}

func TestStubs(t *testing.T) {
	d := newTestIngest(t, func(o *Options) { o.Ready = func() error { return nil } })
	for _, c := range []struct{ to, want string }{
		{"/flags/?v=2&compression=base64", flagsAnswer},
		{"/decide/?v=3", decideAnswer},
		{"GET /api/surveys/?token=x", `{"surveys":[]}`},
		{"/s/?compression=gzip-js", `{"status":"Ok"}`},
		{"GET /array/phc_x/config", configAnswer},
		{"GET /array/phc_x/config.js", fmt.Sprintf("(function(){var c=window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};c[%q]={config:%s,siteApps:[]};})();\n", "phc_x", configAnswer)},
		{"GET /health", `{"status":"ok"}`},
		{"GET /ready", `{"status":"ready"}`},
	} {
		want(t, d.send(c.to, ""), 200, c.want)
	}
	d = newTestIngest(t, func(o *Options) { o.Ready = func() error { return errors.New("postgres://user:secret@db is down") } })
	want(t, d.send("GET /ready", ""), 503, `{"status":"unavailable"}`)
	want(t, d.send("GET /health", ""), 200, `{"status":"ok"}`)
	want(t, d.send("HEAD /health", ""), 200, "")
}

func TestBrowsersOfAnyPageMaySend(t *testing.T) {
	d := newTestIngest(t)
	for _, path := range []string{"/e/", "/v1/batch", "/i/v1/analytics/events", "/v1/t", "/flags/"} {
		w := d.send("OPTIONS "+path, "", header{"Origin": "https://shop.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key, content-type"})
		h := w.Header()
		if w.Code != 200 || h.Get("Access-Control-Allow-Origin") != "https://shop.example" || h.Get("Access-Control-Allow-Credentials") != "true" ||
			h.Get("Access-Control-Allow-Headers") != "x-api-key, content-type" || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") {
			t.Errorf("preflight of %s: %d %v", path, w.Code, h)
		}
	}
	w := d.send("/e/", posted(phIllegal), header{"Origin": "https://shop.example"})
	if w.Code != 400 || w.Header().Get("Access-Control-Allow-Origin") != "https://shop.example" {
		t.Errorf("an error without CORS headers cannot be read by the page: %d %v", w.Code, w.Header())
	}
}

func TestWebHookHandshake(t *testing.T) {
	w := newTestIngest(t).send("OPTIONS /v1/cloudevents", "", header{"WebHook-Request-Origin": "events.example", "WebHook-Request-Rate": "120"})
	if w.Code != 200 || w.Header().Get("WebHook-Allowed-Origin") != "events.example" || w.Header().Get("WebHook-Allowed-Rate") != "*" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}
