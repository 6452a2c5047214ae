package redisqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Limits of one script: others have to wait until it is done.
const (
	addJobs  = 1000
	addBytes = 1 << 20
	nextJobs = 150 // that follow from ends, while requests come: each costs as much as three that are added
)

// Add implements queue.Intake. Concurrent callers are sent together.
func (s *Store) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if added != nil && len(added) != len(jobs) {
		return fmt.Errorf("add %d jobs: room for %d answers", len(jobs), len(added))
	}
	for _, m := range jobs {
		if err := check(m); err != nil {
			return err
		}
	}
	var refused error
	for _, p := range s.parts(jobs) {
		c, err := s.bring(ctx, jobs, p)
		if err != nil {
			return failed(err, "add %d jobs", len(p.jobs))
		}
		for i, at := range p.jobs {
			a := queue.Added(c.took[i] - '0')
			if added != nil {
				added[at] = a
			} else {
				refused = cmp.Or(refused, rules.Refused(a, jobs[at].To))
			}
		}
	}
	return refused
}

// bring adds a part.
func (s *Store) bring(ctx context.Context, jobs []*tidemill.Message, p *part) (c *call, err error) {
	for range packTries {
		if c, err = s.prepare(ctx, jobs, p); err == nil {
			err = s.lines[p.shard][giveway.Line(ctx)].Join(ctx, c)
		}
		if !errors.Is(err, errLost) {
			break
		}
		s.forget(p.shard, c.packs)
	}
	return c, err
}

func check(m *tidemill.Message) error {
	if err := queue.Check(m); err != nil {
		return err
	}
	if len(m.Tenant) > maxTenant {
		return tidemill.Fail(tidemill.Validation, "add job %q: the name of its tenant has %d bytes, at most %d are kept", m.ID, len(m.Tenant), maxTenant)
	}
	return nil
}

// flights are scripts in flight at once: while Redis works on one, the next is being sent.
const flights = 2

// call is one caller's jobs.
type call struct {
	args        []string
	queues      []string // of its runs
	packs       []pack
	jobs, bytes int
	added       int64 // when they were added, in ms, by our clock
	took        string
}

// size is how much of a script a call takes, in bytes: a call with the largest number of
// jobs fills a whole one.
func (c *call) size() int { return max(c.bytes, c.jobs*(addBytes/addJobs)) }

// part is what one script adds to one shard: neighbours, if possible.
type part struct {
	shard int
	jobs  []int // indexes
	bytes int
}

// parts divides jobs by shards and limits, in their order.
func (s *Store) parts(jobs []*tidemill.Message) []*part {
	var parts []*part
	open := make([]*part, len(s.tags))
	for i, m := range jobs {
		shard, size := s.shard(m.ID), sizeOf(m)
		p := open[shard]
		if p == nil || len(p.jobs) >= addJobs || p.bytes+size > addBytes {
			p = &part{shard: shard, jobs: make([]int, 0, min(addJobs, len(jobs)-i))}
			open[shard] = p
			parts = append(parts, p)
		}
		p.jobs = append(p.jobs, i)
		p.bytes += size
	}
	return parts
}

// sizeOf is how many bytes at most a job takes in a script.
func sizeOf(m *tidemill.Message) int {
	size := len(m.Payload) + len(m.Key) + len(m.ID) + len(m.Tenant) + len(m.Type) + 110
	for _, f := range m.Header {
		size += len(f.Name) + len(f.Value) + 10
	}
	return size
}

// prepare makes the arguments of a part.
func (s *Store) prepare(ctx context.Context, jobs []*tidemill.Message, p *part) (*call, error) {
	c := &call{jobs: len(p.jobs), bytes: p.bytes, added: s.now().UnixMilli()}
	// The client may still write a command after its context has ended: give it memory that
	// the caller does not use any more.
	buf := make([]byte, 0, p.bytes)
	c.args = make([]string, 0, 2*len(p.jobs)+4)
	run, n := 0, 0 // the argument with the number of a queue's last run of jobs, and that number
	var pack packer
	for i, at := range p.jobs {
		m := jobs[at]
		if i == 0 || m.To != jobs[p.jobs[i-1]].To {
			var err error
			if pack, err = s.adder(ctx, p.shard, m.To, jobs); err != nil {
				return nil, err
			}
			if len(c.queues) > 0 {
				c.args[run] = strconv.Itoa(n)
			}
			c.args, c.packs = append(c.args, m.To, ""), pack.with(c.packs, m.To)
			c.queues, run, n = append(c.queues, m.To), len(c.args)-1, 0
		}
		n++
		c.args, buf = s.appendJob(c.args, buf, m, pack, c.added)
	}
	c.args[run] = strconv.Itoa(n)
	return c, nil
}

// appendJob appends the two arguments of a job; they point into buf. The record begins with
// when it was added (ms), but for 0: then the script knows.
func (s *Store) appendJob(args []string, buf []byte, m *tidemill.Message, p packer, added int64) ([]string, []byte) {
	from := len(buf)
	buf = s.appendName(buf, m)
	name := len(buf)
	if added != 0 {
		buf = appendAdded(buf, added)
	}
	buf = appendRecord(buf, m, p)
	return append(args, rueidis.BinaryString(buf[from:name:name]), rueidis.BinaryString(buf[name:len(buf):len(buf)])), buf
}

// add runs the script for some calls, and answers each.
func (s *Store) add(ctx context.Context, shard int, calls []*call) error {
	args := make([]string, 5, 5+len(calls)*len(calls[0].args))
	var queues []string
	var packs []pack
	jobs, first, last := 0, calls[0].added, calls[0].added
	for _, c := range calls {
		args = append(args, c.args...)
		queues, jobs = append(queues, c.queues...), jobs+c.jobs
		first, last = min(first, c.added), max(last, c.added)
		packs = merge(packs, c.packs)
	}
	args[0], args[1], args[2] = strconv.Itoa(s.o.Capacity), remember, strconv.Itoa(len(queues))
	args[3], args[4] = strconv.FormatInt(first, 10), strconv.FormatInt(last, 10)
	took, err := s.run(ctx, addScript, shard, packed(args, packs)...).ToString()
	if err == nil {
		took, err = s.holding(shard, took, jobs, queues)
	}
	for _, c := range calls {
		if err == nil {
			c.took, took = took[:c.jobs], took[c.jobs:]
		}
	}
	return err
}

// holding notes how many jobs the queues hold, from the answer of a script that adds jobs: a
// digit for each of n, then a space and a number for each queue. It returns the digits.
func (s *Store) holding(shard int, said string, n int, queues []string) (digits string, err error) {
	if said == "" {
		return "", errLost
	}
	held := strings.Fields(said[min(n, len(said)):])
	if len(said) < n || len(held) != len(queues) {
		return "", reply("add jobs")
	}
	for i, queue := range queues {
		jobs, err := strconv.ParseInt(held[i], 10, 64)
		if err != nil {
			return "", reply("add jobs")
		}
		s.dict(shard, queue).held.Store(jobs)
	}
	return said[:n], nil
}

var remember = strconv.FormatInt(queue.Remember.Milliseconds(), 10)
