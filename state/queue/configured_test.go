package queue_test

import (
	"maps"
	"testing"

	"github.com/tidemill/tidemill/state/queue"
)

// TestLimitsGoWithTheirConfiguration: and those set by hand stay.
func TestLimitsGoWithTheirConfiguration(t *testing.T) {
	type limits = map[string]queue.Limit
	full := queue.Configured{Limit: queue.Limit{PerSecond: 10, Burst: 2, AtOnce: 5}, Tenants: limits{"a": {PerSecond: 1}, "b": {AtOnce: 3}}}
	for _, c := range []struct {
		name    string
		hand    func(*queue.Settings) // between the configurations; nil: nothing
		then    queue.Configured
		limit   queue.Limit
		tenants limits
	}{
		{"all of it stays", nil, full, full.Limit, full.Tenants},
		{"all of it goes", nil, queue.Configured{}, queue.Limit{}, nil},
		{"the rate goes", nil, queue.Configured{Limit: queue.Limit{AtOnce: 6}, Tenants: full.Tenants}, queue.Limit{AtOnce: 6}, full.Tenants},
		{"the bound goes", nil, queue.Configured{Limit: queue.Limit{PerSecond: 20}, Tenants: full.Tenants}, queue.Limit{PerSecond: 20}, full.Tenants},
		{"a tenant goes, another comes", nil, queue.Configured{Limit: full.Limit, Tenants: limits{"b": {AtOnce: 4}, "c": {AtOnce: 1}}}, full.Limit, limits{"b": {AtOnce: 4}, "c": {AtOnce: 1}}},
		{"what was set by hand is replaced", func(s *queue.Settings) { s.Limit.PerSecond, s.Tenants["a"] = 7, queue.Limit{AtOnce: 9} }, full, full.Limit, full.Tenants},
		{"what was changed by hand stays", func(s *queue.Settings) {
			s.Limit.PerSecond, s.Limit.AtOnce, s.Tenants["a"] = 7, 8, queue.Limit{AtOnce: 9}
		},
			queue.Configured{}, queue.Limit{PerSecond: 7, Burst: 2, AtOnce: 8}, limits{"a": {AtOnce: 9}}},
		{"what was never configured stays", func(s *queue.Settings) { s.Tenants["hand"] = queue.Limit{AtOnce: 1} }, queue.Configured{}, queue.Limit{}, limits{"hand": {AtOnce: 1}}},
		{"what was taken away by hand stays away", func(s *queue.Settings) { s.Limit, s.Tenants = queue.Limit{}, nil }, queue.Configured{}, queue.Limit{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s queue.Settings
			s.Configure(full)
			if c.hand != nil {
				c.hand(&s)
			}
			s.Configure(c.then)
			if s.Limit != c.limit || !maps.Equal(s.Tenants, c.tenants) {
				t.Errorf("limit %+v, tenants %+v; want %+v, %+v", s.Limit, s.Tenants, c.limit, c.tenants)
			}
			if len(full.Tenants) != 2 {
				t.Errorf("the configuration itself was changed: %+v", full)
			}
		})
	}
	var s queue.Settings
	s.Limit = queue.Limit{PerSecond: 3, AtOnce: 2}
	s.Configure(queue.Configured{})
	if s.Limit != (queue.Limit{PerSecond: 3, AtOnce: 2}) {
		t.Errorf("without any configuration: %+v", s.Limit)
	}
	other := s.Clone()
	other.Configure(full)
	if len(s.Tenants) != 0 || len(s.Configured.Tenants) != 0 {
		t.Errorf("a clone shares: %+v", s)
	}
}
