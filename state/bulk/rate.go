package bulk

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is how many in an hour; 0: no limit.
type Rate int

var perHour = map[string]Rate{"": 3600, "s": 3600, "m": 60, "h": 1}

// MaxRate is the greatest number in a Rate's text.
const MaxRate = 1_000_000

// UnmarshalText reads 50/s, 50/m, 50/h, or 50, which is in a second.
func (r *Rate) UnmarshalText(b []byte) error {
	number, per, _ := strings.Cut(string(b), "/")
	n, err := strconv.Atoi(number)
	unit, ok := perHour[per]
	if err != nil || !ok || n < 1 || n > MaxRate {
		return fmt.Errorf("%q is not a rate: write 50/s, 50/m or 50/h", b)
	}
	*r = Rate(n) * unit
	return nil
}

// String is its text in the largest unit that it has a whole number of; empty: no limit.
func (r Rate) String() string {
	switch {
	case r == 0:
		return ""
	case r%3600 == 0:
		return strconv.Itoa(int(r/3600)) + "/s"
	case r%60 == 0:
		return strconv.Itoa(int(r/60)) + "/m"
	}
	return strconv.Itoa(int(r)) + "/h"
}

// Takes is how long n things take; 0 where there is no limit.
func (r Rate) Takes(n int) time.Duration {
	if r == 0 {
		return 0
	}
	return time.Duration(float64(n) / float64(r) * float64(time.Hour))
}

// Slice is how many may go at once: those of a second, one at least; 0: no limit.
func (r Rate) Slice() int {
	if r == 0 {
		return 0
	}
	return max(1, int(r)/3600)
}

// PerSecond is how many in a second.
func (r Rate) PerSecond() float64 { return float64(r) / 3600 }
