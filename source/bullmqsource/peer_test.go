package bullmqsource

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
)

// atOnce bounds what is to happen by a wake-up, on a busy machine: whoever looks by himself comes
// later.
const atOnce = longest - time.Second

// versions of BullMQ: what they are called in testdata/bullmq.
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

// packages installs what testdata/bullmq names, once for all runs, and returns where.
var packages = sync.OnceValues(func() (string, error) {
	lock, err := os.ReadFile("testdata/bullmq/package-lock.json")
	if err != nil {
		return "", err
	}
	script, err := os.ReadFile("testdata/bullmq/peer.mjs")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(lock, script...))
	dir := filepath.Join(testenv.Dir(), "bullmq-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(testenv.Dir(), 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(testenv.Dir(), "bullmq-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	if err := os.CopyFS(fresh, os.DirFS("testdata/bullmq")); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	// Not npm ci: the parts of one dependency that are for other systems may not be in the lock.
	npm := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install BullMQ (it needs Node.js 20 and npm): %w\n%s", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, other := os.Stat(dir); other != nil { // nobody else was first
			return "", err
		}
	}
	return dir, nil
})

// peer is a process with BullMQ: a Queue, and more where asked for.
type peer struct {
	t   testing.TB
	cmd *exec.Cmd

	mu  sync.Mutex
	in  *json.Encoder
	out *bufio.Scanner
}

// rig is one queue with BullMQ on one side and us on the other.
type rig struct {
	*peer
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
func (r *rig) another() *peer {
	r.t.Helper()
	dir, err := packages()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command("node", filepath.Join(dir, "peer.mjs"), r.version, r.addr.Hostname(), r.addr.Port(), r.o.Prefix, r.o.Queue)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		r.t.Fatal(err)
	}
	p := &peer{t: r.t, cmd: cmd, in: json.NewEncoder(in), out: bufio.NewScanner(out)}
	p.out.Buffer(nil, 64<<20)
	r.t.Cleanup(p.kill)
	p.answer()
	return p
}

// kill ends the process as kill -9 does.
func (p *peer) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}

// do calls BullMQ and returns what it says.
func (p *peer) do(what string, args ...any) json.RawMessage {
	p.t.Helper()
	is, err := p.try(what, args...)
	if err != nil {
		p.t.Fatalf("%s %v: %v", what, args, err)
	}
	return is
}

func (p *peer) try(what string, args ...any) (json.RawMessage, error) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if args == nil {
		args = []any{}
	}
	if err := p.in.Encode(map[string]any{"do": what, "args": args}); err != nil {
		p.t.Fatalf("%s %v: %v", what, args, err)
	}
	return p.answer()
}

func (p *peer) answer() (json.RawMessage, error) {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("BullMQ ended: %v", p.out.Err())
	}
	var a struct {
		Is    json.RawMessage
		Error string
	}
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		p.t.Fatalf("BullMQ said %q: %v", p.out.Text(), err)
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a.Is, nil
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

func as[T any](p *peer, raw json.RawMessage) (v T) {
	p.t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		p.t.Fatalf("BullMQ said %s: %v", raw, err)
	}
	return v
}

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
func (r *rig) settle(src *Source, want tidemill.Took, ends ...tidemill.Settlement) []tidemill.Settlement {
	r.t.Helper()
	if err := src.Settle(r.t.Context(), ends); err != nil {
		r.t.Fatal(err)
	}
	for _, e := range ends {
		if e.Took != want {
			r.t.Fatalf("settlement of job %s was taken as %d, want %d", e.ID, e.Took, want)
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
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Again, After: after, Burn: burn, Kind: tidemill.Transient, Cause: "not yet"}
}

func ids(ms []*tidemill.Message) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = m.ID
	}
	return out
}
