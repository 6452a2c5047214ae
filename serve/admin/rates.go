package admin

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/rates"
)

// Names of limits, in the fields RateLimit and RateLimit-Policy and in metrics.
const (
	ofReads     = "reads"
	ofChanges   = "changes"
	ofDear      = "dear"
	ofDearOfAll = "dear-of-all"
)

// dearAgain is after how many seconds a dear request may be asked for again that had no turn.
const dearAgain = 2

// limits are those of the configuration in force.
func (a *API) limits() rates.Limits {
	if a.Config == nil {
		return rates.Limits{}
	}
	r := &a.Config().Admin.Rates
	return rates.Limits{Reads: policy.Limiter{Rate: r.Reads, Burst: r.ReadsBurst}, Changes: policy.Limiter{Rate: r.Changes, Burst: r.ChangesBurst}, Dear: r.Dear, DearOfAll: r.DearOfAll}
}

func newLimited(to prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_api_limited_total",
		Help: "Requests to the API and the console that were answered 429, as their caller asked for more than admin.rates allows: reads or changes a second, or dear requests at a time, of the caller or of all."}, []string{"limit"})
	for _, limit := range []string{ofReads, ofChanges, ofDear, ofDearOfAll} {
		c.WithLabelValues(limit)
	}
	if to != nil {
		to.MustRegister(c)
	}
	return c
}

// Admit counts a read or a change of a caller, as the configuration allows them; what it has done in
// this process then is no other one. The header says how the caller stands. A *operation.Problem with 429
// says when to ask again.
func (a *API) Admit(h http.Header, who caller.Caller, change bool) error {
	s := a.rates.Take(who.Name, change)
	if s.Limit.Rate == 0 {
		return nil
	}
	name := ofReads
	if change {
		name = ofChanges
	}
	h.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", name, s.Limit.Burst, seconds(time.Duration(float64(s.Limit.Burst)/s.Limit.Rate*float64(time.Second)))))
	h.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", name, s.Left, seconds(s.Full)))
	if s.Wait == 0 {
		return nil
	}
	a.limited.WithLabelValues(name).Inc()
	after := seconds(s.Wait)
	p := operation.Refuse(http.StatusTooManyRequests, "%s asks for more than %g %s a second, which is what admin.rates.%s allows: wait for %d s and go on", who.Name, s.Limit.Rate, name, name, after)
	p.After = after
	return p
}

// seconds are whole ones, 1 at least.
func seconds(d time.Duration) int { return max(int(math.Ceil(d.Seconds())), 1) }

// admit counts a request from outside; what takes events in is not counted.
func (a *API) admit(w http.ResponseWriter, r *http.Request, d *operation.Description) error {
	if outside, _ := r.Context().Value(outsideKey{}).(bool); !outside || d.Ingest {
		return nil
	}
	return a.Admit(w.Header(), caller.From(r.Context()), changes(d))
}

// turn waits for the turn of a request, if it is dear, or reads while events are to be taken in; end
// ends it.
func (a *API) turn(w http.ResponseWriter, r *http.Request, d *operation.Description) (end func(), err error) {
	if a.Readers != nil && d.ReadsPage(r) {
		return a.Readers.Enter(r.Context()), nil
	}
	if d.CostOf(r) != operation.Dear {
		return func() {}, nil
	}
	who := caller.From(r.Context()).Name
	end, full := a.rates.Begin(r.Context(), who)
	if full == nil {
		return end, nil
	}
	name, of := ofDear, who+" has"
	if full.OfAll {
		name, of = ofDearOfAll, "all callers together have"
	}
	a.limited.WithLabelValues(name).Inc()
	w.Header().Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;qu=\"concurrent-requests\"", name, full.Most))
	w.Header().Set("RateLimit", fmt.Sprintf("%q;r=0;t=%d", name, dearAgain))
	p := operation.Refuse(http.StatusTooManyRequests, "%s is dear, and %s %d such at work already, which is all that there may be at a time: go on when one has ended", d.ID, of, full.Most)
	p.After = dearAgain
	return nil, p
}

// outsideKey is that of a request which came to this API by itself: what the console asks is counted as
// its page.
type outsideKey struct{}
