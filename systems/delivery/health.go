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

// Health is that of the last five minutes, in slices of half a minute.
const (
	slices5m = 10
	slice    = 30 * time.Second
)

// Latencies are counted in steps of a quarter of a power of two, from 1 ms up: P50 and P99
// are right to within a fifth.
const steps = 64

// health is what a partner's requests came to lately.
type health struct {
	now func() time.Time

	mu        sync.Mutex // guards all below; held for short work in memory only
	slices    [slices5m]counted
	lastError string
	errorAt   time.Time
	successAt time.Time
}

// counted is what came of the requests of one slice.
type counted struct {
	number  int64 // of the slice, since 1970
	ok, bad int
	took    [steps]uint32
}

// observe takes in one request. Only what the partner is at fault for, or refuses us
// altogether, is no success: an event that is wrong says nothing about its health.
func (h *health) observe(_ context.Context, _ []*tidemill.Message, a partner.Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := a.At.Add(a.Took).UnixNano() / int64(slice)
	c := &h.slices[n%slices5m]
	if c.number != n {
		*c = counted{number: n}
	}
	if a.Status != 0 {
		c.took[step(a.Took)]++
	}
	if took(a.Err) {
		h.successAt = a.At.Add(a.Took)
	}
	if took(a.Err) || a.Status != 0 && wrongEvent(a.Err) { // not a blocked target: it was never asked
		c.ok++
		return
	}
	c.bad++
	h.lastError, h.errorAt = a.Err.Error(), a.At.Add(a.Took)
}

// took says whether the partner took something.
func took(err error) bool {
	_, partly := errors.AsType[*tidemill.Partial](err)
	return err == nil || partly
}

func wrongEvent(err error) bool {
	switch tidemill.KindOf(err) {
	case tidemill.Validation, tidemill.Business, tidemill.NotFound:
		return true
	}
	return false
}

func step(d time.Duration) int {
	ms := max(float64(d)/float64(time.Millisecond), 1)
	return min(int(4*math.Log2(ms)), steps-1)
}

// latency is the middle of a step.
func latency(step int) time.Duration {
	return time.Duration(math.Exp2((float64(step)+.5)/4) * float64(time.Millisecond))
}

// look fills in what the requests of the last five minutes came to.
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
		all.ok, all.bad = all.ok+c.ok, all.bad+c.bad
		for s, n := range c.took {
			all.took[s] += n
			answers += int(n)
		}
	}
	p.SuccessRate = -1
	if n := all.ok + all.bad; n > 0 {
		p.SuccessRate = float64(all.ok) / float64(n)
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
