package queue

import "maps"

// Configured are the limits that a configuration sets: of the queue, and of tenants by name.
type Configured struct {
	Limit   Limit            `json:"limit,omitzero"`
	Tenants map[string]Limit `json:"tenants,omitempty"`
}

// Configure sets the limits of a configuration, each separately: how many a second with
// their burst, how many at once, and those of each tenant. A limit that the configuration
// does not name stays as it was set by hand. A limit that an earlier configuration had set,
// and nobody has changed since, is removed.
func (s *Settings) Configure(c Configured) {
	was := s.Configured
	switch l := &s.Limit; {
	case c.Limit.PerSecond > 0:
		l.PerSecond, l.Burst = c.Limit.PerSecond, c.Limit.Burst
	case was.Limit.PerSecond > 0 && l.PerSecond == was.Limit.PerSecond && l.Burst == was.Limit.Burst:
		l.PerSecond, l.Burst = 0, 0
	}
	switch l := &s.Limit; {
	case c.Limit.AtOnce > 0:
		l.AtOnce = c.Limit.AtOnce
	case was.Limit.AtOnce > 0 && l.AtOnce == was.Limit.AtOnce:
		l.AtOnce = 0
	}
	maps.DeleteFunc(s.Tenants, func(name string, l Limit) bool {
		before, had := was.Tenants[name]
		_, has := c.Tenants[name]
		return had && !has && l == before
	})
	if s.Tenants == nil && len(c.Tenants) > 0 {
		s.Tenants = map[string]Limit{}
	}
	maps.Copy(s.Tenants, c.Tenants)
	s.Configured = Configured{c.Limit, maps.Clone(c.Tenants)}
}
