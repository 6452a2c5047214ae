package deliveryingest

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
)

// admitAddress counts a request that comes without a key.
func (x *exchange) admitAddress() *request.Problem {
	l := endpoint.Limit{Count: x.h.PerMinute(), Per: time.Minute}
	if l.Count <= 0 {
		return nil
	}
	s, err := x.h.o.Meter.Admit(x.R.Context(), "address/"+x.address(), 1, l)
	if err != nil {
		x.uncounted(err)
		return nil
	}
	if s.Admitted {
		return nil
	}
	return x.limited("too many requests from this address, please retry later", l, s)
}

// address is the sender's, as it is counted: an IPv6 network of 64 bits is one.
func (x *exchange) address() string {
	a := request.Address(x.R, x.h.o.TrustProxy)
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	if a == (netip.Addr{}) {
		return "unknown"
	}
	return a.String()
}

// day is what a site's day was charged.
type day struct {
	n        int
	limit    endpoint.Limit
	standing endpoint.Standing
}

// admitDay counts events that are new in the site's day.
func (x *exchange) admitDay(n int) *request.Problem {
	l := endpoint.Limit{Count: x.set.PerDay, Per: 24 * time.Hour}
	s, err := x.h.o.Meter.Admit(x.R.Context(), "site/"+x.site, n, l)
	switch {
	case err != nil:
		x.uncounted(err)
	case !s.Admitted:
		return x.limited("the site's events of this day are used up, or would be with these", l, s)
	default:
		x.day = day{n, l, s}
	}
	return nil
}

// returnDay takes back what the day was charged: the events are not kept.
func (x *exchange) returnDay() {
	d := x.day
	x.day = day{}
	if d.n == 0 {
		return
	}
	if err := x.h.o.Meter.Return(x.R.Context(), "site/"+x.site, d.n, d.limit, d.standing); err != nil {
		x.uncounted(err)
	}
}

func (x *exchange) uncounted(err error) {
	// Logged when what is left of a site's limit cannot be asked or given back.
	// To do: see whether the Redis of limits is well; limits do not hold meanwhile.
	x.h.o.Log.WarnContext(x.R.Context(), "limits of sites cannot be asked, requests are let in", "error", err)
}

// limited is the problem of who has sent too much.
func (x *exchange) limited(text string, l endpoint.Limit, s endpoint.Standing) *request.Problem {
	x.Header["X-Ratelimit-Limit"] = []string{strconv.Itoa(l.Count)}
	x.Header["X-Ratelimit-Remaining"] = []string{strconv.Itoa(s.Left)}
	x.Header["X-Ratelimit-Reset"] = []string{strconv.FormatInt(s.Reset.Unix(), 10)}
	after := int(s.Reset.Sub(x.At).Seconds()) + 1
	return &request.Problem{Status: http.StatusTooManyRequests, Reason: "rate_limited", Text: text, After: max(after, 1)}
}
