package queue

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
)

// few is how many jobs each tenant has except the one with a flood of them.
const few, tenants = 1000, 10

// jain is Jain's index of shares: 1 if all are the same, 1/n if one has all.
func jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// fair makes a tenant flood the queue and then nine others bring few jobs, and counts how many
// of each were handled when the last of those few was.
func (s *product) fair(ctx context.Context) error {
	jobs := newEvents().take(queueName, s.Jobs+(tenants-1)*few)
	for i, m := range jobs {
		m.Tenant = "flood"
		if i >= s.Jobs {
			m.Tenant = "tenant-" + strconv.Itoa(i%(tenants-1))
		}
	}
	if err := bulks(jobs[:s.Jobs], s.add(ctx)); err != nil {
		return err
	}
	if err := bulks(jobs[s.Jobs:], s.add(ctx)); err != nil {
		return err
	}
	all := process.NewSeen(len(jobs))
	var mu sync.Mutex
	had, others, index := map[string]float64{}, 0, 0.0
	s.begin()
	stop, err := s.work(ctx, nil, func(m *tidemill.Message) error {
		if _, err := all.One(m.Payload); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if had[m.Tenant]++; m.Tenant == "flood" {
			return nil
		}
		if others++; others == (tenants-1)*few {
			var shares []float64
			for _, n := range had {
				shares = append(shares, n)
			}
			for len(shares) < tenants { // tenants without any yet
				shares = append(shares, 0)
			}
			index = jain(shares)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := all.Wait(ctx); err != nil {
		return err
	}
	s.end()
	if err := stop(); err != nil {
		return err
	}
	if index == 0 {
		return fmt.Errorf("%d jobs of %d of the small tenants were counted", others, (tenants-1)*few)
	}
	return s.tell(ctx, report{Done: all.N(), Twice: all.Twice(), Fair: index})
}
