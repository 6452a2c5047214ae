package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
)

// limit is the least that a queue in Redis can be: it knows no names, keeps no turns,
// redelivers nothing, and keeps no books.
type limit struct {
	*part
	client rueidis.Client
}

// How a limit keeps its jobs.
const (
	byStream = "stream" // a stream: XADD; XREADGROUP by 1,000, then XACK and XDEL of the lot
	byScript = "script" // a hash a job and a list; a script for each job ends the last and leases the next
	byBulk   = "bulk"   // one hash and a list; a script for each 1,000 jobs leases them, another ends them
)

var (
	scriptAdd = rueidis.NewLuaScript(`redis.call('HSET', KEYS[1] .. ARGV[1], 'd', ARGV[2], 'n', 0)
redis.call('LPUSH', KEYS[2], ARGV[1]) return 1`)
	scriptNext = rueidis.NewLuaScript(`if ARGV[1] ~= '' then redis.call('ZREM', KEYS[3], ARGV[1]) redis.call('DEL', KEYS[1] .. ARGV[1]) end
local id = redis.call('RPOP', KEYS[2]) if not id then return nil end
redis.call('ZADD', KEYS[3], ARGV[2], id) redis.call('HINCRBY', KEYS[1] .. id, 'n', 1)
return {id, redis.call('HGET', KEYS[1] .. id, 'd')}`)
	bulkAdd = rueidis.NewLuaScript(`redis.call('HSET', KEYS[1], unpack(ARGV))
local ids = {} for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
redis.call('RPUSH', KEYS[2], unpack(ids)) return 1`)
	bulkLease = rueidis.NewLuaScript(`local ids = redis.call('LPOP', KEYS[2], ARGV[1]) if not ids then return {} end
local lease = {} for i = 1, #ids do lease[2 * i - 1] = ARGV[2] lease[2 * i] = ids[i] end
redis.call('ZADD', KEYS[3], unpack(lease))
return {ids, redis.call('HMGET', KEYS[1], unpack(ids))}`)
	bulkEnd = rueidis.NewLuaScript(`redis.call('ZREM', KEYS[3], unpack(ARGV)) redis.call('HDEL', KEYS[1], unpack(ARGV)) return 1`)
)

// keys of a limit: jobs, the waiting ones, the leased ones. The stream is the first.
var keys = []string{"{limit}jobs", "{limit}waiting", "{limit}out"}

const group = "bench"

func playLimit(ctx context.Context, p *part, how string) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{p.Redis}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer client.Close()
	l := &limit{p, client}
	add, work := l.addByScript, l.byScript
	switch how {
	case byStream:
		add, work = l.addToStream, l.byStream
		if err := client.Do(ctx, client.B().XgroupCreate().Key(keys[0]).Group(group).Id("0").Mkstream().Build()).Error(); err != nil {
			return err
		}
	case byBulk:
		add, work = l.addInBulk, l.inBulk
	}
	put := func(jobs []*tidemill.Message) error { return add(ctx, jobs) }
	r := report{Done: p.Jobs}
	switch p.What {
	case "add", "single":
		jobs, adds := newEvents().take("", p.Jobs), bulks
		if p.What == "single" {
			adds = singles
		}
		p.begin()
		err := adds(jobs, put)
		p.end()
		if err != nil {
			return err
		}
	case "process":
		if err := bulks(newEvents().take("", p.Jobs), put); err != nil {
			return err
		}
		all := process.NewSeen(p.Jobs)
		p.begin()
		err := work(ctx, all, func(int) {})
		p.end()
		if err != nil {
			return err
		}
		r.Done, r.Twice = all.N(), all.Twice()
	case "latency":
		o := offer(int(p.Rate*p.Seconds), "")
		all, ended := process.NewSeen(len(o.jobs)), make(chan error, 1)
		go func() { ended <- work(ctx, all, o.began) }()
		p.begin()
		err := errors.Join(o.add(p.Rate, put), <-ended)
		p.end()
		if err != nil {
			return err
		}
		r.Done, r.Twice, r.Late = all.N(), all.Twice(), o.settled()
	default:
		return fmt.Errorf("a limit has no part %q", p.What)
	}
	r.Held, err = l.held(ctx, how)
	return errors.Join(err, p.Report(r))
}

// held is how many jobs are left.
func (l *limit) held(ctx context.Context, how string) (int64, error) {
	if how == byStream {
		return l.client.Do(ctx, l.client.B().Xlen().Key(keys[0]).Build()).AsInt64()
	}
	waiting, err1 := l.client.Do(ctx, l.client.B().Llen().Key(keys[1]).Build()).AsInt64()
	out, err2 := l.client.Do(ctx, l.client.B().Zcard().Key(keys[2]).Build()).AsInt64()
	return waiting + out, errors.Join(err1, err2)
}

func (l *limit) addToStream(ctx context.Context, jobs []*tidemill.Message) error {
	all := make(rueidis.Commands, 0, len(jobs))
	for _, m := range jobs {
		all = append(all, l.client.B().Xadd().Key(keys[0]).Id("*").FieldValue().FieldValue("d", rueidis.BinaryString(m.Payload)).Build())
	}
	return first(l.client.DoMulti(ctx, all...))
}

func first(results []rueidis.RedisResult) error {
	for _, r := range results {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}

func (l *limit) addByScript(ctx context.Context, jobs []*tidemill.Message) error {
	all := make([]rueidis.LuaExec, 0, len(jobs))
	for _, m := range jobs {
		all = append(all, rueidis.LuaExec{Keys: keys, Args: []string{m.ID, rueidis.BinaryString(m.Payload)}})
	}
	return first(scriptAdd.ExecMulti(ctx, l.client, all...))
}

func (l *limit) addInBulk(ctx context.Context, jobs []*tidemill.Message) error {
	args := make([]string, 0, 2*len(jobs))
	for _, m := range jobs {
		args = append(args, m.ID, rueidis.BinaryString(m.Payload))
	}
	return bulkAdd.Exec(ctx, l.client, keys, args).Error()
}

// hand lets workers handle payloads, and returns when they have.
func (l *limit) hand(payloads []string, all *process.Seen, began func(int)) error {
	return process.Each(min(l.Workers, len(payloads)), payloads, func(payload string) error {
		i, err := all.One([]byte(payload))
		if err == nil {
			began(i)
		}
		return err
	})
}

// byStream reads and acknowledges on its own connection.
func (l *limit) byStream(ctx context.Context, all *process.Seen, began func(int)) error {
	c, release := l.client.Dedicate()
	defer release()
	for all.N() < all.Of() {
		got, err := c.Do(ctx, c.B().Xreadgroup().Group(group, "one").Count(1000).Block(1000).Streams().Key(keys[0]).Id(">").Build()).AsXRead()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return err
		}
		var ids, payloads []string
		for _, e := range got[keys[0]] {
			ids, payloads = append(ids, e.ID), append(payloads, e.FieldValues["d"])
		}
		if err := l.hand(payloads, all, began); err != nil {
			return err
		}
		if err := first(c.DoMulti(ctx, c.B().Xack().Key(keys[0]).Group(group).Id(ids...).Build(), c.B().Xdel().Key(keys[0]).Id(ids...).Build())); err != nil {
			return err
		}
	}
	return nil
}

// byScript has workers that each ask for jobs. Without jobs they sleep for 1 ms.
func (l *limit) byScript(ctx context.Context, all *process.Seen, began func(int)) error {
	var wait sync.WaitGroup
	var failed atomic.Pointer[error]
	for range l.Workers {
		wait.Go(func() {
			last := ""
			for failed.Load() == nil {
				got, err := scriptNext.Exec(ctx, l.client, keys, []string{last, strconv.FormatInt(time.Now().UnixMilli(), 10)}).AsStrSlice()
				last = ""
				if rueidis.IsRedisNil(err) {
					if all.N() == all.Of() {
						return
					}
					time.Sleep(time.Millisecond)
					continue
				}
				if err == nil {
					last = got[0]
					var i int
					if i, err = all.One([]byte(got[1])); err == nil {
						began(i)
					}
				}
				if err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wait.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// inBulk leases and ends by 1,000; without jobs it looks every millisecond.
func (l *limit) inBulk(ctx context.Context, all *process.Seen, began func(int)) error {
	for all.N() < all.Of() {
		got, err := bulkLease.Exec(ctx, l.client, keys, []string{"1000", strconv.FormatInt(time.Now().UnixMilli(), 10)}).ToArray()
		if err != nil {
			return err
		}
		if len(got) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		ids, err1 := got[0].AsStrSlice()
		payloads, err2 := got[1].AsStrSlice()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if err := l.hand(payloads, all, began); err != nil {
			return err
		}
		if err := bulkEnd.Exec(ctx, l.client, keys, ids).Error(); err != nil {
			return err
		}
	}
	return nil
}
