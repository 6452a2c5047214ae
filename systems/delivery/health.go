package delivery

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Health covers the last five minutes, in slices of half a minute.
const (
	slices5m = 10
	slice    = 30 * time.Second
)

// Latencies are counted in steps of a quarter of a power of two, from 1 ms up: P50 and P99
// are right to within a fifth.
const steps = 64

// health is what became of a partner's recent requests.
type health struct {
	now func() time.Time

	mu        sync.Mutex // guards all below; held only for short work in memory
	slices    [slices5m]counted
	lastError string
	errorAt   time.Time
	successAt time.Time
	failures  []Failure // the oldest first
}

// counted is what became of the requests of one slice.
type counted struct {
	number   int64   // of the slice, since 1970
	requests int     // that ended
	ok       float64 // how many were deliveries: of a batch the share that was delivered
	took     [steps]uint32
}

// observe counts one request. Only a delivery is a success, whatever caused the failure: a
// partner that answers 400 or 404 to everything gets nothing. A request that was answered, or
// timed out, has a latency.
func (h *health) observe(_ context.Context, batch []*tidemill.Message, a partner.Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := a.At.Add(a.Took)
	n := at.UnixNano() / int64(slice)
	c := &h.slices[n%slices5m]
	if c.number != n {
		*c = counted{number: n}
	}
	if a.Status != 0 || a.Late {
		c.took[step(a.Took)]++
	}
	share := delivered(a.Err, len(batch))
	c.requests++
	c.ok += share
	if share > 0 {
		h.successAt = at
	}
	if a.Err != nil {
		h.lastError, h.errorAt = a.Err.Error(), at
		h.failed(at, a)
	}
}

// success is when the partner last accepted something; zero: never.
func (h *health) success() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.successAt
}

// delivered is the share of a request's messages that the partner accepted, from 0 to 1.
func delivered(err error, messages int) float64 {
	if err == nil {
		return 1
	}
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok || messages == 0 {
		return 0
	}
	return 1 - float64(len(partly.Failed))/float64(messages)
}

func step(d time.Duration) int {
	ms := max(float64(d)/float64(time.Millisecond), 1)
	return min(int(4*math.Log2(ms)), steps-1)
}

// latency is the middle of a step.
func latency(step int) time.Duration {
	return time.Duration(math.Exp2((float64(step)+.5)/4) * float64(time.Millisecond))
}

// look fills in what became of the requests of the last five minutes.
func (h *health) look(p *PartnerHealth) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.LastError, p.LastErrorAt, p.LastSuccessAt = h.lastError, h.errorAt, h.successAt
	oldest := h.now().UnixNano()/int64(slice) - slices5m
	var all counted
	answers := 0
	for i := range h.slices {
		c := &h.slices[i]
		if c.number <= oldest {
			continue
		}
		all.ok, all.requests = all.ok+c.ok, all.requests+c.requests
		for s, n := range c.took {
			all.took[s] += n
			answers += int(n)
		}
	}
	p.SuccessRate = -1
	if all.requests > 0 {
		p.SuccessRate = all.ok / float64(all.requests)
	}
	p.P50, p.P99 = all.quantile(answers, .5), all.quantile(answers, .99)
}

func (c *counted) quantile(of int, q float64) time.Duration {
	left := int(math.Ceil(q * float64(of)))
	for s, n := range c.took {
		if left -= int(n); left <= 0 && of > 0 {
			return latency(s)
		}
	}
	return 0
}
