package command

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rate is how many in which time: 50/s.
type Rate struct {
	N   int
	per time.Duration
}

// UnmarshalText reads 50/s, 50/m, 50/h, or 50, which is in a second.
func (r *Rate) UnmarshalText(b []byte) error {
	number, per, _ := strings.Cut(string(b), "/")
	n, err := strconv.Atoi(number)
	unit, ok := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour}[per]
	if err != nil || !ok || n < 1 || n > 1e6 {
		return fmt.Errorf("%q is not a rate: write 50/s, 50/m or 50/h", b)
	}
	r.N, r.per = n, unit
	return nil
}

// Slice is how many go at once and how long to wait between: about a second, or longer
// where there is less than one in a second.
func (r Rate) Slice() (n int, every time.Duration) {
	n = max(1, int(math.Ceil(r.PerSecond())))
	return n, time.Duration(float64(n) * float64(r.per) / float64(r.N))
}

func (r Rate) PerSecond() float64 { return float64(r.N) / r.per.Seconds() }

// Takes is how long so many take.
func (r Rate) Takes(n int) time.Duration {
	size, every := r.Slice()
	if n == 0 {
		return 0
	}
	return (time.Duration((n-1)/size) * every).Round(time.Second)
}
