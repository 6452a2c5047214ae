// Package number adds JSON numbers exactly, as they are written.
package number

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"
)

// MaxDigits is how many digits a number in a sum may have on either side of the point:
// 1e1000000000 must not fill the memory.
const MaxDigits = 100

// space of JSON.
const space = " \t\r\n"

// decimal is coef / 10^scale.
type decimal struct {
	coef  *big.Int
	scale int // 0 to MaxDigits
}

// Valid says whether v is a JSON number that can be added to.
func Valid(v []byte) bool {
	_, ok := parse(v)
	return ok
}

// Null says whether v is the JSON null.
func Null(v []byte) bool { return string(bytes.Trim(v, space)) == "null" }

// parse reads a JSON number exactly.
func parse(v []byte) (decimal, bool) {
	s := string(bytes.Trim(v, space))
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return decimal{}, false
	}
	mantissa, power, scientific := strings.Cut(strings.ToLower(s), "e")
	exponent := 0
	if scientific {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil || exponent < -2*MaxDigits || exponent > 2*MaxDigits {
			return decimal{}, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if len(whole) > MaxDigits+1 || len(fraction) > MaxDigits {
		return decimal{}, false
	}
	coef, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return decimal{}, false
	}
	d := decimal{coef, len(fraction) - exponent}
	if d.scale < 0 {
		d.to(0)
	}
	return d, d.bounded()
}

// to changes the scale of d: to a greater one, or to 0 from below.
func (d *decimal) to(scale int) {
	ten := big.NewInt(10)
	d.coef.Mul(d.coef, ten.Exp(ten, big.NewInt(int64(scale-d.scale)), nil))
	d.scale = scale
}

func (d *decimal) bounded() bool {
	if d.scale > MaxDigits || d.coef.BitLen() > 4*2*MaxDigits {
		return false
	}
	digits := len(d.coef.Text(10))
	if d.coef.Sign() < 0 {
		digits--
	}
	return digits-d.scale <= MaxDigits
}

// Plus adds two JSON numbers exactly, with as many digits after the point as the longer
// one: 12.50 + 1 is 13.50.
func Plus(a, b []byte) ([]byte, bool) {
	if m, ok := small(a); ok {
		if n, ok := small(b); ok {
			return strconv.AppendInt(nil, m+n, 10), true
		}
	}
	x, ok := parse(a)
	if !ok {
		return nil, false
	}
	y, ok := parse(b)
	if !ok {
		return nil, false
	}
	scale := max(x.scale, y.scale)
	x.to(scale)
	y.to(scale)
	x.coef.Add(x.coef, y.coef)
	return x.append(nil), x.bounded()
}

// small reads an integer with so few digits that a sum of two cannot overflow.
func small(v []byte) (int64, bool) {
	if len(v) > 18 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil
}

func (d *decimal) append(b []byte) []byte {
	if d.scale == 0 {
		return d.coef.Append(b, 10)
	}
	if d.coef.Sign() < 0 {
		b = append(b, '-')
	}
	digits := new(big.Int).Abs(d.coef).Text(10)
	if missing := d.scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - d.scale
	return append(append(append(b, digits[:point]...), '.'), digits[point:]...)
}
