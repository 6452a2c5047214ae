package redisqueue

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// setTries is how often settings are changed anew because another caller was faster.
const setTries = 100

// Settings implements queue.Tuner.
func (s *Store) Settings(ctx context.Context, name string) (queue.Settings, error) {
	is, _, _, err := s.settings(ctx, name, 0)
	return is, err
}

// settings reads the settings of a queue in a shard, decoded and as stored.
func (s *Store) settings(ctx context.Context, name string, shard int) (is queue.Settings, kept string, c compiled, err error) {
	if err := ctx.Err(); err != nil {
		return is, "", c, err
	}
	got, err := s.run(ctx, settingsScript, shard, name).AsStrSlice()
	if err != nil {
		return is, "", c, failed(err, "read the settings of queue %q", name)
	}
	if len(got) != 2 {
		return is, "", c, reply("read settings")
	}
	if got[0] != "" {
		if err := json.Unmarshal([]byte(got[0]), &is); err != nil {
			return is, "", c, reply("read settings")
		}
		if err := json.Unmarshal([]byte(got[1]), &c); err != nil {
			return is, "", c, reply("read settings")
		}
	}
	return is, got[0], c, nil
}

// Set implements queue.Tuner. The first shard decides; the others follow, to the newest.
func (s *Store) Set(ctx context.Context, name string, change func(*queue.Settings)) (queue.Settings, error) {
	for range setTries {
		was, kept, c, err := s.settings(ctx, name, 0)
		if err != nil {
			return was, err
		}
		to := was.Clone()
		change(&to)
		if err := to.Check(); err != nil {
			return was, err
		}
		if to.Ordered && len(s.tags) > 1 {
			return was, tidemill.Fail(tidemill.Validation, "queue %q: strict order needs a single shard, there are %d", name, len(s.tags))
		}
		args, err := s.changed(was, to, c)
		if err != nil {
			return was, err
		}
		version, err := s.set(ctx, 0, name, kept, args)
		if err != nil {
			return was, err
		}
		if version == 0 {
			continue
		}
		for shard := 1; shard < len(s.tags); shard++ {
			if _, err := s.set(ctx, shard, name, ">"+strconv.FormatInt(version, 10), args); err != nil {
				return to, err
			}
		}
		return to, nil
	}
	return queue.Settings{}, tidemill.Fail(tidemill.Transient, "change the settings of queue %q: others change them all the time", name)
}

// changed is the script's arguments for new settings, behind the old ones.
func (s *Store) changed(was, to queue.Settings, c compiled) ([]string, error) {
	text, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	c, named := compile(to, c, len(s.tags))
	form, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	others := "1"
	if rules.SameLimits(&to, &was) {
		others = "0"
	}
	return append([]string{string(text), string(form), others}, named...), nil
}

// set changes the settings of a shard. It returns their version, or 0 if they are not the
// ones that were read.
func (s *Store) set(ctx context.Context, shard int, name, read string, args []string) (int64, error) {
	version, err := s.run(ctx, settingsScript, shard, append([]string{name, read}, args...)...).AsInt64()
	switch {
	case err != nil:
		return 0, failed(err, "change the settings of queue %q", name)
	case version < 0:
		return 0, rules.NotEmpty(name)
	}
	return version, nil
}

// Turn implements queue.Limiter: it asks one shard after the other, as each has its part
// of a limit.
func (s *Store) Turn(ctx context.Context, name, tenant string, n int) (int, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return 0, time.Time{}, err
	}
	shard := int(s.turns.Add(1) % uint32(len(s.tags)))
	got, err := s.run(ctx, turnScript, shard, name, tenant, strconv.Itoa(n)).AsIntSlice()
	switch {
	case err != nil:
		return 0, time.Time{}, failed(err, "take a turn in queue %q", name)
	case len(got) != 2:
		return 0, time.Time{}, reply("take a turn")
	case got[0] > 0 || got[1] < 0:
		return int(got[0]), time.Time{}, nil
	}
	return 0, s.now().Add(time.Duration(got[1]) * time.Millisecond), nil
}

// compiled is settings in the form of the scripts.
type compiled struct {
	Paused    bool           `json:"paused,omitempty"`
	Closed    bool           `json:"closed,omitempty"`
	Max       int            `json:"max,omitempty"` // jobs of the shard
	Weights   map[uint8]int  `json:"weights,omitempty"`
	Fair      queue.Fairness `json:"fair,omitempty"`
	Ordered   bool           `json:"ordered,omitempty"`
	Keyed     bool           `json:"keyed,omitempty"`    // jobs wait apart by their keys
	WasKeyed  bool           `json:"waskeyed,omitempty"` // some may
	Limit     *limit         `json:"limit,omitempty"`
	Tenant    *limit         `json:"tenant,omitempty"`
	Key       *limit         `json:"key,omitempty"`
	Named     bool           `json:"named,omitempty"`   // some tenants have limits of their own
	Rated     bool           `json:"rated,omitempty"`   // there is a limit of the rate
	Longest   int64          `json:"longest,omitempty"` // ms that a rate lets wait, and a second
	Completed *keep          `json:"completed,omitempty"`
	Failed    *keep          `json:"failed,omitempty"`
	Kept      bool           `json:"kept,omitempty"`    // jobs were kept once
	Limited   bool           `json:"limited,omitempty"` // there was a limit once
}

type limit struct {
	Each   float64 `json:"each,omitempty"` // µs
	Ahead  float64 `json:"ahead,omitempty"`
	AtOnce int     `json:"at_once,omitempty"`
}

type keep struct {
	Count int   `json:"count"`
	Age   int64 `json:"age,omitempty"` // ms
}

// compile makes the form for scripts, and that of the limits of tenants by name.
func compile(s queue.Settings, was compiled, shards int) (compiled, []string) {
	c := compiled{Paused: s.Paused, Closed: s.Closed, Max: (s.Max + shards - 1) / shards, Weights: s.Weights, Fair: s.Fair, Ordered: s.Ordered, Keyed: rules.Keyed(&s),
		Limit: partOf(s.Limit, shards), Tenant: partOf(s.Tenant, shards), Key: partOf(s.Key, shards), Named: len(s.Tenants) > 0,
		Completed: keeps(s.Completed), Failed: keeps(s.Failed)}
	c.WasKeyed = was.WasKeyed || c.Keyed
	c.Kept = was.Kept || c.Completed != nil || c.Failed != nil
	c.Rated = s.Limit.PerSecond > 0 || s.Tenant.PerSecond > 0 || s.Key.PerSecond > 0
	c.Limited = was.Limited || c.Limit != nil || c.Tenant != nil || c.Key != nil || c.Named
	longest := max(rules.Interval(s.Tenant), rules.Interval(s.Key))
	var named []string
	for tenant, l := range s.Tenants {
		longest = max(longest, rules.Interval(l))
		c.Rated = c.Rated || l.PerSecond > 0
		form := []byte("{}")
		if p := partOf(l, shards); p != nil {
			form, _ = json.Marshal(p) // plain numbers
		}
		named = append(named, tenant, string(form))
	}
	if longest > 0 {
		c.Longest = int64(longest)*int64(shards)/1000 + 1000
	}
	return c, named
}

// partOf is a shard's part of a limit; nil: no limit.
func partOf(l queue.Limit, shards int) *limit {
	if l.PerSecond == 0 && l.AtOnce == 0 {
		return nil
	}
	n := float64(shards)
	p := &limit{Each: rules.Interval(l) * n, AtOnce: (l.AtOnce + shards - 1) / shards}
	if p.Each > 0 {
		p.Ahead = max(1, float64(rules.Ahead(l))/n)
	}
	return p
}

func keeps(k queue.Keep) *keep {
	if k.Count == 0 {
		return nil
	}
	return &keep{Count: k.Count, Age: k.Age.Milliseconds()}
}
