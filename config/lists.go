package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// List is several words, separated by commas or blanks. Empty ones are dropped.
type List []string

func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
}

// UnmarshalText reads the words.
func (l *List) UnmarshalText(b []byte) error { *l = words(string(b)); return nil }

// MarshalText writes them with commas.
func (l List) MarshalText() ([]byte, error) { return []byte(strings.Join(l, ",")), nil }

// Networks are several networks.
type Networks []netip.Prefix

// UnmarshalText reads prefixes.
func (n *Networks) UnmarshalText(b []byte) error {
	var all Networks
	for _, w := range words(string(b)) {
		p, err := netip.ParsePrefix(w)
		if err != nil {
			return fmt.Errorf("%q is no network such as 10.1.0.0/16", w)
		}
		all = append(all, p)
	}
	*n = all
	return nil
}

// MarshalText writes them with commas.
func (n Networks) MarshalText() ([]byte, error) {
	var all []string
	for _, p := range n {
		all = append(all, p.String())
	}
	return []byte(strings.Join(all, ",")), nil
}

// Addresses are several addresses, read like a List. What may be a key in one is not
// written.
type Addresses []string

// UnmarshalText reads the addresses as they are; check says whether they can be ones.
func (a *Addresses) UnmarshalText(b []byte) error { *a = words(string(b)); return nil }

// MarshalText writes them with commas, each like a URL.
func (a Addresses) MarshalText() ([]byte, error) {
	shown := make([]string, len(a))
	for i, s := range a {
		shown[i] = URL(s).String()
	}
	return []byte(strings.Join(shown, ",")), nil
}

// String is what MarshalText writes.
func (a Addresses) String() string {
	b, _ := a.MarshalText()
	return string(b)
}

// Buckets are the upper bounds of a histogram's buckets.
type Buckets []float64

// UnmarshalText reads numbers, separated by commas or blanks.
func (s *Buckets) UnmarshalText(b []byte) error {
	var all Buckets
	for _, w := range words(string(b)) {
		v, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", w)
		}
		all = append(all, v)
	}
	*s = all
	return nil
}

// MarshalText writes the numbers with commas.
func (s Buckets) MarshalText() ([]byte, error) {
	var b []byte
	for i, v := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
	}
	return b, nil
}

// CPUSet are numbers of CPUs, from 0.
type CPUSet []int

// maxCPUs is more than Linux knows in its largest configuration, 8192.
const maxCPUs = 1 << 14

// UnmarshalText reads numbers and ranges, like 0,2-3.
func (s *CPUSet) UnmarshalText(b []byte) error {
	var all CPUSet
	for _, w := range words(string(b)) {
		first, last, isRange := strings.Cut(w, "-")
		low, err := strconv.ParseUint(first, 10, 16)
		high := low
		if isRange && err == nil {
			high, err = strconv.ParseUint(last, 10, 16)
		}
		if err != nil || high < low || high >= maxCPUs {
			return fmt.Errorf("%q is no number of a CPU and no range of them", w)
		}
		for n := low; n <= high; n++ {
			all = append(all, int(n))
		}
	}
	*s = all
	return nil
}

// MarshalText writes the numbers with commas.
func (s CPUSet) MarshalText() ([]byte, error) {
	var b []byte
	for i, n := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return b, nil
}
