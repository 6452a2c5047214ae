package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes, written like 64KiB, 5MB or 1048576.
type Size int64

var units = []struct {
	name string
	size int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.size {
			break
		}
		*s = Size(n * u.size)
		return nil
	}
	return fmt.Errorf("%q is not a size: write a number and B, KB, MB, GB, KiB, MiB or GiB", text)
}

// MarshalText writes a size in the largest binary unit that divides it.
func (s Size) MarshalText() ([]byte, error) {
	for i := 2; i >= 0; i-- {
		if u := units[i]; s != 0 && int64(s)%u.size == 0 {
			return fmt.Appendf(nil, "%d%s", int64(s)/u.size, u.name), nil
		}
	}
	return fmt.Appendf(nil, "%dB", int64(s)), nil
}
