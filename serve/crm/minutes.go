package crm

import (
	"net/http"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
)

// admit refuses events of a tenant that has sent too many.
func (x *exchange) admit(n int) *answer.Problem {
	most := x.h.o.Limits.PerMinute
	if most == 0 {
		return nil
	}
	now := x.h.o.Now()
	ok, until := x.h.minutes.Admit(x.tenant, n, most, now)
	if ok {
		return nil
	}
	return &answer.Problem{Code: http.StatusTooManyRequests, Word: "rate_limited", Text: "the tenant's events of this minute are used up, or would be with these", After: int(until.Sub(now)/time.Second) + 1}
}
