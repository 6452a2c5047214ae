package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// rate is how many in which time: 50/s.
type rate struct {
	n   int
	per time.Duration
}

// UnmarshalText reads 50/s, 50/m, 50/h, or 50, which is in a second.
func (r *rate) UnmarshalText(b []byte) error {
	number, per, _ := strings.Cut(string(b), "/")
	n, err := strconv.Atoi(number)
	unit, ok := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour}[per]
	if err != nil || !ok || n < 1 || n > 1e6 {
		return fmt.Errorf("%q is not a rate: write 50/s, 50/m or 50/h", b)
	}
	r.n, r.per = n, unit
	return nil
}

// slice is how many go at once and how long to wait between: about a second, or longer
// where there is less than one in a second.
func (r rate) slice() (n int, every time.Duration) {
	n = max(1, int(math.Ceil(r.perSecond())))
	return n, time.Duration(float64(n) * float64(r.per) / float64(r.n))
}

func (r rate) perSecond() float64 { return float64(r.n) / r.per.Seconds() }

// takes is how long so many take.
func (r rate) takes(n int) time.Duration {
	size, every := r.slice()
	if n == 0 {
		return 0
	}
	return (time.Duration((n-1)/size) * every).Round(time.Second)
}
