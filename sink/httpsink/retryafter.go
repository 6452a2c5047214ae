package httpsink

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter reads the wait that a Retry-After header asks for: seconds, also with decimals
// or an exponent, or an HTTP date. It is between 0 and most. 0 means no wish, also for
// garbage and for times that have passed.
func RetryAfter(value string, now time.Time, most time.Duration) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseFloat(value, 64); err == nil || math.IsInf(seconds, 0) {
		switch {
		case math.IsNaN(seconds) || seconds <= 0:
			return 0
		case seconds >= most.Seconds():
			return most
		}
		return time.Duration(seconds * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(min(at.Sub(now), most), 0)
}
