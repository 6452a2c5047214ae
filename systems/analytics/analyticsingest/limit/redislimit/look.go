package redislimit

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
)

// look is one round trip: commands, and what becomes of their answers.
type look struct {
	cmds  rueidis.Commands
	takes []func(answer rueidis.RedisResult, err error) // the lock is held; err: there is no answer
	all   []rueidis.RedisResult
}

func (l *look) ask(c rueidis.Completed, take func(rueidis.RedisResult, error)) {
	l.cmds = append(l.cmds, c)
	l.takes = append(l.takes, take)
}

func nothing(rueidis.RedisResult, error) {}

// run sends the commands.
func (l *look) run(ctx context.Context, m *Meter) error {
	if len(l.cmds) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	l.all = m.client.DoMulti(ctx, l.cmds...)
	for _, a := range l.all {
		if err := a.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return redisconn.Error(err, "count events")
		}
	}
	return nil
}

// take gives the answers to those who asked; the lock is held.
func (m *Meter) take(ctx context.Context, l *look, err error) {
	for i, take := range l.takes {
		a := l.all[i]
		err := a.Error()
		if rueidis.IsRedisNil(err) {
			err = nil
		}
		take(a, err)
	}
	if ctx.Err() == nil && len(l.cmds) > 0 { // a client that hung up says nothing about Redis
		m.trouble(ctx, err)
	}
}

// prepare asks for all of a project, and writes what was let in here, of others too; the
// lock is held.
func (m *Meter) prepare(project uuid.UUID, r *row, now time.Time, bucket int64) *look {
	l := &look{}
	m.send(l, project, r, bucket)
	along := 0
	for id, other := range m.of { // in any order: all get their turn
		if along == alongMax {
			break
		}
		if other != r && now.Sub(other.look) > 0 && m.send(l, id, other, bucket) {
			along++
		}
	}
	b := m.client.B()
	if m.o.Rate > 0 {
		for at := bucket - buckets + 1; at <= bucket; at++ {
			l.ask(b.Get().Key(rateKey(project, at)).Build(), func(a rueidis.RedisResult, err error) {
				n, _ := a.AsInt64() // none there: 0
				switch i := at % buckets; {
				case err != nil:
				case r.at[i] == at:
					r.seen[i] = n
				case r.at[i] < at:
					r.at[i], r.seen[i], r.unsent[i] = at, n, 0
				}
			})
		}
	}
	l.ask(b.Sismember().Key(overSet).Member(project.String()).Build(), func(a rueidis.RedisResult, err error) {
		if n, nerr := a.AsInt64(); err == nil && nerr == nil {
			r.over = n == 1
		}
	})
	m.bill(l, project, r)
	if month := r.month; m.o.Quota > 0 {
		l.ask(b.Get().Key("billing:events:"+project.String()+":"+month).Build(), func(a rueidis.RedisResult, err error) {
			if n, _ := a.AsInt64(); err == nil && r.month == month {
				r.billed = n + r.owed
			}
		})
	}
	return l
}

// send writes what was let in since; the lock is held. What has no answer may have been
// counted there: it is not sent twice, and goes on counting here.
func (m *Meter) send(l *look, project uuid.UUID, r *row, bucket int64) (any bool) {
	if m.o.Rate == 0 {
		r.unsent = [buckets]int64{}
		return false
	}
	b := m.client.B()
	for i, at := range r.at {
		n := r.unsent[i]
		if n == 0 || at <= bucket-buckets {
			continue
		}
		any = true
		r.unsent[i] = 0
		r.seen[i] += n
		key := rateKey(project, at)
		l.ask(b.Incrby().Key(key).Increment(n).Build(), nothing)
		l.ask(b.Expire().Key(key).Seconds(life).Build(), nothing)
	}
	return any
}

// bill writes what is owed; the lock is held.
func (m *Meter) bill(l *look, project uuid.UUID, r *row) {
	n, month := r.owed, r.month
	if n == 0 {
		return
	}
	r.owed = 0
	b := m.client.B()
	key := "billing:events:" + project.String() + ":" + month
	l.ask(b.Incrby().Key(key).Increment(n).Build(), func(a rueidis.RedisResult, err error) {
		switch total, terr := a.AsInt64(); {
		case err != nil && !lostAnswer(err): // where the answer was lost, nobody is billed twice
			r.owed += n
		case err == nil && terr == nil && r.month == month:
			r.billed = total + r.owed
		}
	})
	l.ask(b.Expireat().Key(key).Timestamp(billEnd(month).Unix()).Build(), nothing)
}
