// Package redislimit counts what addresses and sites send to the ingest API of delivery in Redis,
// so that all instances of the ingest API count together. Use it where there are several.
//
//	<prefix>limit:<seconds of a window>:<its begin, unix>:{<name>}   how many were let in
//
// Each count expires with its window. Windows follow the clocks of the instances, which are
// to agree to within a second or so.
package redislimit

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/serve/endpoint"
)

// Options tune a Meter; the zero value is ready to use.
type Options struct {
	Prefix  string           // of all keys
	Timeout time.Duration    // how long Redis may take to answer, after which all is let in; 0 means 250ms
	Now     func() time.Time // nil means time.Now
}

// Meter is an endpoint.Meter.
type Meter struct {
	client rueidis.Client
	o      Options
}

var _ endpoint.Meter = (*Meter)(nil)

// New makes a meter.
func New(client rueidis.Client, o Options) (*Meter, error) {
	if client == nil || o.Timeout < 0 {
		return nil, errors.New("limits in Redis: want a connection, and no negative timeout")
	}
	o.Timeout = cmp.Or(o.Timeout, 250*time.Millisecond)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Meter{client, o}, nil
}

var (
	// KEYS count; ARGV how many, limit, milliseconds to keep the count.
	// Answers whether they are let in, and the count then.
	admit = rueidis.NewLuaScript(`
local n, more = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])
if n + more > tonumber(ARGV[2]) then return {0, n} end
redis.call('SET', KEYS[1], n + more, 'PX', ARGV[3])
return {1, n + more}`)
	// KEYS count; ARGV how many. What has expired is gone.
	giveBack = rueidis.NewLuaScript(`
local n = tonumber(redis.call('GET', KEYS[1]) or '0')
if n > 0 then redis.call('SET', KEYS[1], math.max(n - tonumber(ARGV[1]), 0), 'KEEPTTL') end
return n`)
)

func (m *Meter) key(name string, per time.Duration, reset time.Time) string {
	return m.o.Prefix + "limit:" + strconv.Itoa(int(per/time.Second)) + ":" + strconv.FormatInt(reset.Add(-per).Unix(), 10) + ":{" + name + "}"
}

// Admit is endpoint.Meter.
func (m *Meter) Admit(ctx context.Context, name string, n int, l endpoint.Limit) (endpoint.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	now := m.o.Now().UTC()
	s := endpoint.Standing{Reset: now.Truncate(l.Per).Add(l.Per)}
	keep := s.Reset.Sub(now) + time.Minute // of clocks that do not agree
	got, err := admit.Exec(ctx, m.client, []string{m.key(name, l.Per, s.Reset)}, []string{strconv.Itoa(n), strconv.Itoa(l.Count), strconv.FormatInt(keep.Milliseconds(), 10)}).AsIntSlice()
	if err == nil && len(got) != 2 {
		err = errors.New("an answer of another form")
	}
	if err != nil {
		return endpoint.Standing{}, redisconn.Error(err, "count %d of %s", n, name)
	}
	s.Admitted, s.Left = got[0] == 1, max(l.Count-int(got[1]), 0)
	return s, nil
}

// Return is endpoint.Meter.
func (m *Meter) Return(ctx context.Context, name string, n int, l endpoint.Limit, s endpoint.Standing) error {
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	if err := giveBack.Exec(ctx, m.client, []string{m.key(name, l.Per, s.Reset)}, []string{strconv.Itoa(n)}).Error(); err != nil {
		return redisconn.Error(err, "take back %d of %s", n, name)
	}
	return nil
}
