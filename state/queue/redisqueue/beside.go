package redisqueue

import (
	"context"
	_ "embed"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/gather"
	"github.com/tidemill/tidemill/internal/redisconn"
)

//go:embed beside.lua
var besideLua string

// Beside adds jobs in one stroke with what another role does in the same Redis: both
// happen, or nothing. It may be used by any number of goroutines; those who come together
// share scripts.
type Beside struct {
	store  *Store
	part   redisconn.Part
	script *rueidis.Lua
	keys   []string
	line   gather.Line[*besideCall]
}

// besideCall is a request.
type besideCall struct {
	part, jobs   []string
	count, bytes int
	taken        bool
}

// Beside makes one of the other role's part. Nil: it cannot be, because the keys of both are
// not on one node, in a Redis Cluster, or a job's shard is not its own.
func (s *Store) Beside(part redisconn.Part) *Beside {
	if s.client.Mode() == rueidis.ClientModeCluster || len(s.tags) > 1 {
		return nil
	}
	b := &Beside{store: s, part: part, keys: append([]string{s.tags[0] + "queues"}, part.Keys...)}
	b.script = script("", waitingLua, acceptLua, "local known, keep\ndo\n", part.Lua, "\nend\n", besideLua)
	b.line = gather.Line[*besideCall]{Calls: flights, Most: addBytes, Size: (*besideCall).size, Call: b.send}
	return b
}

// Add adds jobs if the part lets its arguments pass, and if there is room for all of them;
// known ones are as good as added. It says whether it did; otherwise nothing has changed.
// After an error it may have happened or not.
func (b *Beside) Add(ctx context.Context, part []string, jobs []*tidemill.Message) (bool, error) {
	s := b.store
	c := &besideCall{part: part, count: len(jobs)}
	for _, m := range jobs {
		if err := check(m); err != nil {
			return false, err
		}
		c.bytes += sizeOf(m)
	}
	buf := make([]byte, 0, c.bytes)
	c.jobs = append(make([]string, 0, 1+3*len(jobs)), strconv.Itoa(len(jobs)))
	for _, p := range part {
		c.bytes += len(p)
	}
	for _, m := range jobs {
		d, err := s.packer(ctx, m.To, jobs)
		if err != nil {
			return false, failed(err, "add %d jobs", len(jobs))
		}
		c.jobs = append(c.jobs, m.To)
		c.jobs, buf = s.appendJob(c.jobs, buf, m, d)
	}
	if err := b.line.Join(ctx, c); err != nil {
		return false, failed(err, "add %d jobs", len(jobs))
	}
	return c.taken, nil
}

// size is how much of a script a request takes, in bytes.
func (c *besideCall) size() int { return max(c.bytes, c.count*(addBytes/addJobs)) }

// send runs the script for some requests, and answers each.
func (b *Beside) send(ctx context.Context, calls []*besideCall) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answer)
	defer cancel()
	own := b.part.Args()
	n := 5 + len(own)
	for _, c := range calls {
		n += len(c.part) + len(c.jobs)
	}
	args := append(make([]string, 0, n), strconv.FormatInt(b.store.o.ahead().Milliseconds(), 10),
		strconv.Itoa(b.store.o.Capacity), remember, strconv.Itoa(len(calls)), "")
	args = append(args, own...)
	for _, c := range calls {
		args = append(args, c.part...)
	}
	args[4] = strconv.Itoa(len(args) + 1)
	for _, c := range calls {
		args = append(args, c.jobs...)
	}
	taken, err := b.script.Exec(ctx, b.store.client, b.keys, args).ToString()
	if err == nil && len(taken) != len(calls) {
		err = reply("add jobs beside others")
	}
	if err != nil {
		return err
	}
	for i, c := range calls {
		c.taken = taken[i] == '1'
	}
	return nil
}
