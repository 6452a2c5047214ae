package event

// decimal is a JSON number without rounding, as far as limits need it.
type decimal struct {
	negative bool   // and not zero
	whole    uint64 // before the point; the largest uint64 where it does not fit
	part     bool   // there are digits behind the point
}

// most is a whole part that no limit reaches.
const most = 1 << 62

// parseNumber reads a JSON number that is known to be one.
func parseNumber(b []byte) decimal {
	i := 0
	minus := b[0] == '-'
	if minus {
		i = 1
	}
	mantissa := b[i:]
	exponent, point := 0, 0
	for j, c := range mantissa {
		if c|0x20 == 'e' {
			exponent = parseExponent(mantissa[j+1:])
			mantissa = mantissa[:j]
			break
		}
	}
	point = len(mantissa)
	for j, c := range mantissa {
		if c == '.' {
			point = j
			break
		}
	}
	// The digits that count before the point are those before `point`, moved by exponent.
	var d decimal
	zero := true
	left := point + exponent // digits before the point, leading zeros included
	for j, c := range mantissa {
		if c == '.' {
			continue
		}
		if c != '0' {
			zero = false
		}
		if j > point {
			j--
		}
		switch {
		case j < left:
			d.whole = shift(d.whole, uint64(c-'0'))
		case c != '0':
			d.part = true
		}
	}
	n := len(mantissa)
	if point < n {
		n--
	}
	for ; n < left && !zero && d.whole < most; n++ {
		d.whole = shift(d.whole, 0)
	}
	d.negative = minus && !zero
	return d
}

// shift appends a digit.
func shift(n, digit uint64) uint64 {
	if n >= most/10 {
		return most
	}
	return n*10 + digit
}

// parseExponent reads the digits behind the e of a number. Beyond a million all are the same.
func parseExponent(b []byte) int {
	minus := false
	n := 0
	for i, c := range b {
		switch {
		case i == 0 && (c == '+' || c == '-'):
			minus = c == '-'
		case n < 1_000_000:
			n = n*10 + int(c-'0')
		}
	}
	if minus {
		return -n
	}
	return n
}

// above says whether the number is greater than n, which is not negative.
func (d decimal) above(n int64) bool {
	return !d.negative && (d.whole > uint64(n) || d.whole == uint64(n) && d.part)
}

// below says whether the number is less than n, which is not negative.
func (d decimal) below(n int64) bool { return d.negative || d.whole < uint64(n) }
