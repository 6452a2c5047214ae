package bullmqsource

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/bullmqsource/bullmqtest"
)

// atOnce bounds what a wake-up is to trigger, on a busy machine: a worker that looks on its own
// comes later.
const atOnce = longest - time.Second

// versions of BullMQ: what they are called in bullmqtest.
var versions = []string{"bullmq-early", "bullmq-late", "bullmq-six"}

// each runs a test with every version.
func each(t *testing.T, run func(t *testing.T, version string)) { eachOf(t, versions, run) }

// oldAndNew runs a test with the oldest version and the newest: nothing in between does what it
// looks at in another way.
func oldAndNew(t *testing.T, run func(t *testing.T, version string)) {
	eachOf(t, []string{versions[0], versions[2]}, run)
}

// late runs a test with the versions that have what early ones have not.
func late(t *testing.T, run func(t *testing.T, version string)) { eachOf(t, versions[1:], run) }

func eachOf(t *testing.T, versions []string, run func(t *testing.T, version string)) {
	testenv.Need(t)
	t.Parallel()
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			run(t, v)
		})
	}
}

// slots bound how many tests with processes of Node.js run at once: many at a time would measure
// the machine.
var slots = make(chan struct{}, 10)

// rig is one queue with BullMQ on one side and us on the other.
type rig struct {
	peer    *bullmqtest.Peer
	t       testing.TB
	client  rueidis.Client
	o       Options
	version string
	addr    *url.URL
	src     *Source
}

func newRig(t testing.TB, version string, o Options) *rig {
	t.Helper()
	return rigOn(t, testenv.Redis(t), version, o)
}

func rigOn(t testing.TB, raw, version string, o Options) *rig {
	t.Helper()
	client := redistest.Connect(t, raw)
	raw, _, several := strings.Cut(raw, ",")
	addr, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if several {
		addr.Host = "cluster:" + addr.Port()
	}
	o.Queue = testenv.Name("q")
	if o.Prefix == "" {
		o.Prefix = "bull"
	}
	if o.Lease == 0 {
		o.Lease = time.Minute
	}
	r := &rig{t: t, client: client, o: o, version: version, addr: addr}
	r.src = r.open()
	r.peer = r.another()
	t.Cleanup(func() { // the server is everybody's
		_, _ = r.try("queue", "pause")
		_, _ = r.try("queue", "obliterate", map[string]any{"force": true})
	})
	return r
}

func (r *rig) open() *Source {
	r.t.Helper()
	s, err := New(r.client, r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// another starts one more process with BullMQ.
func (r *rig) another() *bullmqtest.Peer {
	r.t.Helper()
	return bullmqtest.Start(r.t, r.version, r.addr, r.o.Prefix, r.o.Queue)
}

// do calls BullMQ and returns what it says.
func (r *rig) do(what string, args ...any) json.RawMessage {
	r.t.Helper()
	return r.peer.Do(what, args...)
}

func (r *rig) try(what string, args ...any) (json.RawMessage, error) {
	r.t.Helper()
	return r.peer.Try(what, args...)
}

// seenJob is a job as BullMQ's getters show it.
type seenJob struct {
	ID, Name, FailedReason, State, ProcessedBy string
	Data, ReturnValue, Progress                json.RawMessage
	AttemptsMade, AttemptsStarted              int
	Stacktrace                                 []string
	ProcessedOn, FinishedOn                    int64
	Delay                                      float64
}

func as[T any](p *bullmqtest.Peer, raw json.RawMessage) T { return bullmqtest.As[T](p, raw) }

// add adds a job and returns its id.
func (r *rig) add(data any, opts map[string]any) string {
	r.t.Helper()
	return as[seenJob](r.peer, r.do("queue", "add", "event", data, opts)).ID
}

func (r *rig) job(id string) *seenJob { r.t.Helper(); return as[*seenJob](r.peer, r.do("job", id)) }

func (r *rig) counts() map[string]int {
	r.t.Helper()
	return as[map[string]int](r.peer, r.do("queue", "getJobCounts"))
}

type seenEvent struct {
	Event, JobID, Prev, FailedReason, ReturnValue string
	Data                                          json.RawMessage
}

// happened waits until QueueEvents has told of an event of a job.
func (r *rig) happened(event, id string) seenEvent {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the stream's reader has no event of its own
		raw := r.do("seen")
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list)
		for _, one := range list {
			var e struct {
				Event, JobID, Prev, FailedReason string
				ReturnValue, Data                json.RawMessage
			}
			if json.Unmarshal(one, &e) == nil && e.Event == event && (id == "" || e.JobID == id) {
				return seenEvent{e.Event, e.JobID, e.Prev, e.FailedReason, string(e.ReturnValue), e.Data}
			}
		}
		if time.Now().After(end) {
			r.t.Fatalf("no event %s of job %s in %s", event, id, raw)
		}
	}
}

// receive takes exactly n jobs within a time.
func (r *rig) receive(src *Source, n int, within time.Duration) []*tidemill.Message {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	var all []*tidemill.Message
	for len(all) < n {
		into := make([]*tidemill.Message, n-len(all))
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		got, err := src.Receive(ctx, into)
		if err != nil {
			r.t.Fatalf("received %v of %d jobs: %v", ids(all), n, err)
		}
		all = append(all, into[:got]...)
	}
	return all
}

// nothing checks that nothing is handed out for a time.
func (r *rig) nothing(src *Source, d time.Duration) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), d)
	defer cancel()
	m := new(tidemill.Message)
	if n, err := src.Receive(ctx, []*tidemill.Message{m}); n > 0 || !errors.Is(err, context.DeadlineExceeded) {
		r.t.Fatalf("received %d (%s), %v; want nothing for %v", n, m.ID, err, d)
	}
}

// settle ends hand-outs, and checks the answer to each.
func (r *rig) settle(src *Source, want tidemill.Outcome, ends ...tidemill.Settlement) []tidemill.Settlement {
	r.t.Helper()
	if err := src.Settle(r.t.Context(), ends); err != nil {
		r.t.Fatal(err)
	}
	for _, e := range ends {
		if e.Outcome != want {
			r.t.Fatalf("settlement of job %s was taken as %d, want %d", e.ID, e.Outcome, want)
		}
	}
	return ends
}

func done(m *tidemill.Message) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}
}

func dead(m *tidemill.Message, cause string) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Dead, Kind: tidemill.Validation, Cause: cause}
}

func again(m *tidemill.Message, after time.Duration, burn bool) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Again, After: after, CountTry: burn, Kind: tidemill.Transient, Cause: "not yet"}
}

func ids(ms []*tidemill.Message) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.ID
	}
	return out
}
