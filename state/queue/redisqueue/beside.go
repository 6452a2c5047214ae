package redisqueue

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/gather"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/redisconn"
)

//go:embed beside.lua
var besideLua string

// Beside adds jobs atomically with what another role does in the same Redis: both happen,
// or nothing. It may be used by any number of goroutines; concurrent callers share scripts.
type Beside struct {
	store  *Store
	part   redisconn.Part
	script *rueidis.Lua
	keys   []string
	lines  [giveway.Lines]gather.Line[*besideCall]
	calls  sync.Pool // of answered *besideCall
}

// besideCall is a request.
type besideCall struct {
	names, texts []string
	jobs         []besideJob
	packs        []pack
	bytes        int
	added        int64 // when they were, in ms, by our clock
	taken        bool

	room [1]besideJob // most requests have one
	buf  []byte       // holds the jobs' arguments
}

// keepBytes is the largest memory of a request that is used again.
const keepBytes = 8 << 10

// call returns an empty request, perhaps with another's memory.
func (b *Beside) call() *besideCall {
	if c, ok := b.calls.Get().(*besideCall); ok {
		return c
	}
	return new(besideCall)
}

// answered takes back a request after its script was answered, and so was sent as a whole.
// Of other requests the client may still have bytes to write.
func (b *Beside) answered(c *besideCall) {
	buf := c.buf[:0]
	if cap(buf) > keepBytes {
		buf = nil
	}
	*c = besideCall{buf: buf}
	b.calls.Put(c)
}

// besideJob is a job: the arguments of the script.
type besideJob struct {
	queue string
	args  [2]string // name and record
}

// Beside joins the queue with the other role's part. Nil: not possible, because in a Redis
// Cluster the keys of both are on different nodes, or a job's shard is on another one.
func (s *Store) Beside(part redisconn.Part) *Beside {
	if s.client.Mode() == rueidis.ClientModeCluster || len(s.tags) > 1 {
		return nil
	}
	b := &Beside{store: s, part: part, keys: append([]string{s.tags[0] + "queues"}, part.Keys...)}
	b.script = script("", waitingLua, acceptLua, "local known, keep\ndo\n", part.Lua, "\nend\n", besideLua)
	for i := range b.lines {
		b.lines[i] = gather.Line[*besideCall]{Most: addBytes, Size: (*besideCall).size, Call: b.send}
	}
	return b
}

// Add adds jobs if the part knows none of the names, no job is known to its queue, and all
// have room. Each name has a text that the part keeps. Add says whether it added them;
// otherwise nothing has changed. Of concurrent requests with the same name only the first
// may be added. After an error it may have happened or not.
func (b *Beside) Add(ctx context.Context, names, texts []string, jobs []*tidemill.Message) (taken bool, err error) {
	for range packTries {
		if taken, err = b.add(ctx, names, texts, jobs); !errors.Is(err, errLost) {
			break
		}
	}
	return taken, err
}

func (b *Beside) add(ctx context.Context, names, texts []string, jobs []*tidemill.Message) (bool, error) {
	s := b.store
	c := b.call()
	c.names, c.texts, c.added = names, texts, s.now().UnixMilli()
	for _, m := range jobs {
		if err := check(m); err != nil {
			return false, err
		}
		c.bytes += sizeOf(m)
	}
	buf := slices.Grow(c.buf, c.bytes)
	for i := range names {
		c.bytes += len(names[i]) + len(texts[i])
	}
	c.jobs = c.room[:]
	if len(jobs) != 1 {
		c.jobs = make([]besideJob, len(jobs))
	}
	for i, m := range jobs {
		p, err := s.adder(ctx, 0, m.To, jobs)
		if err != nil {
			return false, failed(err, "add %d jobs", len(jobs))
		}
		j := &c.jobs[i]
		j.queue, c.packs = m.To, p.with(c.packs, m.To)
		_, buf = s.appendJob(j.args[:0], buf, m, p, c.added)
	}
	c.buf = buf
	if err := b.lines[giveway.Line(ctx)].Join(ctx, c); err != nil {
		if errors.Is(err, errLost) {
			s.forget(0, c.packs)
		}
		return false, failed(err, "add %d jobs", len(jobs))
	}
	taken := c.taken
	b.answered(c)
	return taken, nil
}

// size is how much of a script a request takes, in bytes.
func (c *besideCall) size() int { return max(c.bytes, max(len(c.jobs), 1)*(addBytes/addJobs)) }

// besideQueue is what a script adds to one queue.
type besideQueue struct {
	name   string
	owners []byte // the request of each job, as appendOwner appends it
	jobs   []*besideJob
}

// appendOwner appends the number of a request, from 1 on: a script has far fewer requests
// than two bytes can count.
func appendOwner(b []byte, request int) []byte {
	return append(b, byte(request>>8), byte(request))
}

// send runs the script for some requests, and answers each.
func (b *Beside) send(ctx context.Context, calls []*besideCall) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answer)
	defer cancel()
	calls = unlike(calls)
	names, jobs, first, last, several := 0, 0, calls[0].added, calls[0].added, "0"
	var packs []pack
	for _, c := range calls {
		if len(c.jobs) > 1 {
			several = "1"
		}
		packs = merge(packs, c.packs)
		names, jobs = names+len(c.names), jobs+len(c.jobs)
		first, last = min(first, c.added), max(last, c.added)
	}
	owners := make([]byte, 0, 2*names)
	var queues []*besideQueue
	for r, c := range calls {
		for range c.names {
			owners = appendOwner(owners, r+1)
		}
		for i := range c.jobs {
			j := &c.jobs[i]
			at := slices.IndexFunc(queues, func(q *besideQueue) bool { return q.name == j.queue })
			if at < 0 {
				at = len(queues)
				queues = append(queues, &besideQueue{name: j.queue, jobs: make([]*besideJob, 0, jobs)})
			}
			q := queues[at]
			q.owners, q.jobs = appendOwner(q.owners, r+1), append(q.jobs, j)
		}
	}
	own := b.part.Args()
	args := make([]string, 0, 10+len(own)+2*names+3*len(queues)+2*jobs)
	args = append(args, strconv.FormatInt(b.store.o.ahead().Milliseconds(), 10), strconv.Itoa(b.store.o.Capacity), remember,
		strconv.Itoa(len(calls)), strconv.Itoa(names), rueidis.BinaryString(owners), strconv.Itoa(11+len(own)),
		strconv.FormatInt(first, 10), strconv.FormatInt(last, 10), several)
	args = append(args, own...)
	for _, c := range calls {
		args = append(args, c.names...)
	}
	for _, c := range calls {
		args = append(args, c.texts...)
	}
	to := make([]string, 0, len(queues))
	for _, q := range queues {
		to = append(to, q.name)
		args = append(args, q.name, strconv.Itoa(len(q.jobs)), rueidis.BinaryString(q.owners))
		for _, j := range q.jobs {
			args = append(args, j.args[:]...)
		}
	}
	taken, err := b.run(ctx, packed(args, packs)).ToString()
	if err == nil {
		taken, err = b.store.holding(0, taken, len(calls), to)
	}
	if err != nil {
		return err
	}
	for i, c := range calls {
		c.taken = taken[i] == '1'
	}
	return nil
}

// run runs the script.
func (b *Beside) run(ctx context.Context, args []string) rueidis.RedisResult {
	defer b.store.gates[0].Enter(ctx)()
	return b.script.Exec(ctx, b.store.client, b.keys, args)
}

// unlike are the requests without a name that one before them has.
func unlike(calls []*besideCall) []*besideCall {
	if len(calls) == 1 {
		return calls
	}
	seen := make(map[string]struct{}, len(calls)*len(calls[0].names))
	return slices.DeleteFunc(calls, func(c *besideCall) bool {
		had := len(seen)
		for _, name := range c.names {
			seen[name] = struct{}{}
		}
		return len(seen) < had+len(c.names)
	})
}
