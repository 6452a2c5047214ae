package bullmqsource

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

func TestOptionsOfJobs(t *testing.T) {
	for _, c := range []struct{ raw, completed, failed, traces, onFailure string }{
		{``, "", "", "", ""},
		{`{"attempts":0}`, "", "", "", ""},
		{`not JSON`, "", "", "", ""},
		{`{"removeOnComplete":true,"removeOnFail":false}`, "0 - -", "- - -", "", ""},
		{`{"removeOnComplete":0,"removeOnFail":1000}`, "0 - -", "1000 - -", "", ""},
		{`{"removeOnComplete":-1,"removeOnFail":null}`, "- - -", "", "", ""},
		{`{"removeOnComplete":{"count":1000},"removeOnFail":{"age":3600,"count":0}}`, "1000 - -", "0 3600 -", "", ""},
		{`{"removeOnComplete":{"age":1e3,"limit":5},"stackTraceLimit":0}`, "- 1000 5", "", "0", ""},
		{`{"stackTraceLimit":3,"fpof":true,"idof":false,"rdof":true}`, "", "", "3", "fpof rdof "},
		{`{"removeOnComplete":"x","removeOnFail":[1]}`, "", "", "", ""},
	} {
		o := parseOptions(c.raw)
		if o.completed != c.completed || o.failed != c.failed || o.traces != c.traces || o.onFailure != c.onFailure {
			t.Errorf("%s is read as %+v", c.raw, o)
		}
	}
	for _, c := range []struct {
		keep *Keep
		want string
	}{{nil, "- - -"}, {&Keep{}, "- - -"}, {&Keep{Count: -1}, "0 - -"}, {&Keep{Count: 7, Age: time.Minute}, "7 60 -"}, {&Keep{Age: time.Millisecond}, "- 1 -"}} {
		if got := c.keep.rule(); got != c.want {
			t.Errorf("%+v is %q, want %q", c.keep, got, c.want)
		}
	}
}

func TestBackoffsOfJobs(t *testing.T) {
	other := func(kind string, failed int) time.Duration { return time.Duration(failed) * time.Hour }
	for _, c := range []struct {
		raw    string
		chance float64
		waits  []time.Duration // after the first failure, the second…; nil: it does not say
	}{
		{`{}`, 0, nil},
		{`{"backoff":0}`, 0, nil},
		{`{"backoff":1500}`, 0.9, []time.Duration{1500 * time.Millisecond, 1500 * time.Millisecond}},
		{`{"backoff":{"type":"fixed","delay":200}}`, 0.9, []time.Duration{200 * time.Millisecond, 200 * time.Millisecond}},
		{`{"backoff":{"type":"exponential","delay":1000}}`, 0.9, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{`{"backoff":{"type":"exponential","delay":1000,"jitter":0.5}}`, 0, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}},
		{`{"backoff":{"type":"exponential","delay":1000,"jitter":1}}`, 0.25, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond}},
		{`{"backoff":{"type":"fixed"}}`, 0, []time.Duration{0}},
		{`{"backoff":{"type":"exponential","delay":1e300}}`, 0, []time.Duration{longestWait}},
		{`{"backoff":{"type":"mine"}}`, 0, []time.Duration{time.Hour, 2 * time.Hour}},
	} {
		b := parseOptions(c.raw).backoff
		if _, says := b.wait(1, c.chance, other); says != (c.waits != nil) {
			t.Errorf("%s says how long: %v", c.raw, says)
		}
		for i, want := range c.waits {
			if got, _ := b.wait(i+1, c.chance, other); got != want {
				t.Errorf("%s waits %v after failure %d, want %v", c.raw, got, i+1, want)
			}
		}
	}
	if _, says := (&backoff{Type: "mine"}).wait(1, 0, nil); says {
		t.Error("a backoff that nobody knows says how long")
	}
}

func TestVersionsThatAreKnown(t *testing.T) {
	for version, want := range map[string]string{
		"": "", "bullmq:5.1.0": "", "bullmq:5.81.5": "", "bullmq:6.7.0": "",
		"bullmq:7.0.0": "only 5 and 6", "bullmq:4.18.3": "only 5 and 6", "bullmq:50.0.0": "only 5 and 6", "bullmq-pro:7.20.1": "only BullMQ itself", "else": "only BullMQ itself",
	} {
		switch err := speaks(version); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", version, err, want)
		}
	}
}

func TestTheCacheOfOptionsIsBounded(t *testing.T) {
	var c optionsCache
	for i := range 10 * mostOptions {
		text := `{"attempts":` + strings.Repeat("1", i%9+1) + `}` + strings.Repeat(" ", i)
		if o := c.read(text); o != c.read(text) {
			t.Fatal("options are read twice")
		}
		if len(c) > mostOptions {
			t.Fatalf("%d options are remembered", len(c))
		}
	}
}

func TestTags(t *testing.T) {
	for key, want := range map[string]bool{"{bull}:q:": true, "bull:{q}:": true, "bull:q:": false, "{}:q:": false, "{bull:q:": false} {
		if tagged(key) != want {
			t.Errorf("%s lies in one slot: %v, want %v", key, tagged(key), want)
		}
	}
}

func TestTheTracesOfJobs(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for options, want := range map[string]string{
		`{"attempts":3,"tm":"{\"traceparent\":\"` + parent + `\",\"tracestate\":\"v=1\"}"}`: parent + " v=1",
		`{"tm":"{\"traceparent\":\"` + parent + `\"}"}`:                                     parent + " ",
		`{"tm":"{\"traceparent\":\"00-x\"}"}`:                                               "",
		`{"tm":"no JSON"}`:                                                                  "",
		`{"tm":{"traceparent":"00"}}`:                                                       "",
		`{"tm":"{}"}`:                                                                       "",
		`{"omc":true,"attempts":1}`:                                                         "",
		`{"jobId":"\"tm\"`:                                                                  "",
		``:                                                                                  "",
		`{"telemetry":"` + parent + `"}`:                                                    "",
	} {
		got := ""
		if trace, ok := traceOf(options); ok {
			got = trace.String() + " " + trace.State
		}
		if got != want {
			t.Errorf("%s is of the trace %q, want %q", options, got, want)
		}
		j := job{id: "1", options: options}
		var on, off tidemill.Message
		j.message(&on, "q", true)
		j.message(&off, "q", false)
		if got := string(on.Get(tidemill.Traceparent)); got != strings.SplitN(want, " ", 2)[0] {
			t.Errorf("%s: the message has the traceparent %q", options, got)
		}
		if off.Get(tidemill.Traceparent) != nil {
			t.Errorf("%s: a message has a trace though nothing is followed", options)
		}
	}
}
