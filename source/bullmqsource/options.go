package bullmqsource

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
)

// Headers of messages. A message lacks those that its job lacks.
const (
	OptionsHeader       = "bullmq-opts"          // its options, the JSON as it is stored
	PriorityHeader      = "bullmq-priority"      // 1 and above; the lower, the sooner
	ParentHeader        = "bullmq-parent"        // key of its parent
	DeduplicationHeader = "bullmq-deduplication" // its deduplication's id
	FailureHeader       = "bullmq-failed-reason" // its last failure
	RetriedHeader       = "bullmq-retried"       // how often it was retried after it had failed for good
)

// traceOf is the trace that a job's producer was at work on: BullMQ's telemetry metadata, a text of JSON in
// the option tm, which bullmq-otel fills with the names and values of headers.
func traceOf(options string) (t tidemill.Trace, ok bool) {
	if !strings.Contains(options, `"tm"`) {
		return t, false
	}
	var raw struct {
		Metadata string `json:"tm"`
	}
	var said struct {
		Parent string `json:"traceparent"`
		State  string `json:"tracestate"`
	}
	if json.Unmarshal([]byte(options), &raw) != nil || json.Unmarshal([]byte(raw.Metadata), &said) != nil {
		return t, false
	}
	return tidemill.ParseTrace(said.Parent, said.State)
}

// options are the options of a job that say how it ends.
type options struct {
	attempts  int // tries in all; 0 counts as 1
	backoff   *backoff
	completed string // what is kept, in the script's form; empty: the job does not say
	failed    string
	lifo      bool
	traces    string // how many traces are kept; empty: the job does not say
	onFailure string // flags of what its failure means to its parent
}

// backoff is how long a job waits before it is tried again.
type backoff struct {
	Type   string  `json:"type"`
	Delay  float64 `json:"delay"`  // ms
	Jitter float64 `json:"jitter"` // from 0 to 1: the wait is between (1-jitter) of it and all of it; from 5.50 on
}

// parseOptions reads a job's options. Options of no use to it may have any shape; options
// that cannot be read count as none.
func parseOptions(text string) *options {
	var raw struct {
		Attempts  float64         `json:"attempts"`
		Backoff   json.RawMessage `json:"backoff"`
		Completed json.RawMessage `json:"removeOnComplete"`
		Failed    json.RawMessage `json:"removeOnFail"`
		Lifo      bool            `json:"lifo"`
		Traces    *float64        `json:"stackTraceLimit"`
		Fpof      bool            `json:"fpof"`
		Cpof      bool            `json:"cpof"`
		Idof      bool            `json:"idof"`
		Rdof      bool            `json:"rdof"`
	}
	if text != "" && json.Unmarshal([]byte(text), &raw) != nil {
		return &options{}
	}
	o := &options{attempts: whole(raw.Attempts), completed: keepRule(raw.Completed), failed: keepRule(raw.Failed), lifo: raw.Lifo}
	if raw.Traces != nil {
		o.traces = strconv.Itoa(whole(*raw.Traces))
	}
	for _, flag := range []struct {
		on   bool
		name string
	}{{raw.Fpof, "fpof "}, {raw.Cpof, "cpof "}, {raw.Idof, "idof "}, {raw.Rdof, "rdof "}} {
		if flag.on {
			o.onFailure += flag.name
		}
	}
	var fixed float64
	var b backoff
	switch {
	case len(raw.Backoff) == 0 || string(raw.Backoff) == "null":
	case json.Unmarshal(raw.Backoff, &fixed) == nil:
		if fixed > 0 {
			o.backoff = &backoff{Type: "fixed", Delay: fixed}
		}
	case json.Unmarshal(raw.Backoff, &b) == nil:
		o.backoff = &b
	}
	return o
}

// keepRule reads removeOnComplete or removeOnFail: whether, how many, or {count, age, limit}.
func keepRule(raw json.RawMessage) string {
	var whether bool
	var count float64
	var rule struct{ Count, Age, Limit *float64 }
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case json.Unmarshal(raw, &whether) == nil:
		if whether {
			return "0 - -"
		}
		return "- - -"
	case json.Unmarshal(raw, &count) == nil:
		return bound(&count) + " - -"
	case json.Unmarshal(raw, &rule) == nil:
		return bound(rule.Count) + " " + bound(rule.Age) + " " + bound(rule.Limit)
	}
	return ""
}

func bound(n *float64) string {
	if n == nil || *n < 0 {
		return "-"
	}
	return strconv.Itoa(whole(*n))
}

// rule is a Keep in the script's form.
func (k *Keep) rule() string {
	switch {
	case k == nil:
		return "- - -"
	case k.Count < 0:
		return "0 - -"
	}
	count, age := "-", "-"
	if k.Count > 0 {
		count = strconv.Itoa(k.Count)
	}
	if k.Age > 0 {
		age = strconv.FormatInt(max(1, int64(k.Age/time.Second)), 10)
	}
	return count + " " + age + " -"
}

// wait is how long a job waits after that many failed attempts, and whether it says so. Chance
// is from [0, 1).
func (b *backoff) wait(failed int, chance float64, other func(string, int) time.Duration) (time.Duration, bool) {
	if b == nil {
		return 0, false
	}
	d := b.Delay
	switch {
	case b.Type == "fixed":
	case b.Type == "exponential":
		d = math.Round(d * math.Pow(2, float64(failed-1)))
	case other != nil:
		return other(b.Type, failed), true
	default:
		return 0, false
	}
	if b.Jitter > 0 {
		d = math.Floor(d*(1-min(b.Jitter, 1)) + d*min(b.Jitter, 1)*chance)
	}
	return ms(d), true
}

// longestWait bounds a backoff: a century, so that no number overflows.
const longestWait = 100 * 365 * 24 * time.Hour

func ms(d float64) time.Duration {
	if !(d > 0) {
		return 0
	}
	return time.Duration(min(d, float64(longestWait/time.Millisecond))) * time.Millisecond
}

func whole(f float64) int {
	if math.IsNaN(f) {
		return 0
	}
	return int(max(min(f, math.MaxInt32), math.MinInt32))
}

// optionsCache remembers options that were read: most jobs of a queue have the same.
type optionsCache map[string]*options

const mostOptions = 256

func (c *optionsCache) read(text string) *options {
	if o, ok := (*c)[text]; ok {
		return o
	}
	o := parseOptions(text)
	if *c == nil || len(*c) >= mostOptions {
		*c = optionsCache{}
	}
	(*c)[text] = o
	return o
}
