package number

import (
	"math/big"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestPlusIsExact(t *testing.T) {
	digits := rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9])?`)
	rapid.Check(t, func(r *rapid.T) {
		a, b := digits.Draw(r, "a"), digits.Draw(r, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		sum, ok := Plus([]byte(" "+a), []byte(b+"\n"))
		got, number := new(big.Rat).SetString(string(sum))
		if !ok || !number || got.Cmp(x.Add(x, y)) != 0 || strings.ContainsAny(string(sum), "eE+") || !jsontext.Value(sum).IsValid() {
			r.Fatalf("%s + %s = %s (%v)", a, b, sum, ok)
		}
	})
	nines := strings.Repeat("9", MaxDigits)
	for _, c := range [][3]string{{"1", "2", "3"}, {"0.1", "0.2", "0.3"}, {"12.50", "1", "13.50"}, {"999999999999999999", "1", "1000000000000000000"},
		{"-0.5", "0.25", "-0.25"}, {"0.05", "-0.05", "0.00"}, {"1e2", "1", "101"}, {"1E-2", "0", "0.01"}, {"-0", "0", "0"},
		{"-" + nines, "0", "-" + nines}, {"0." + nines, "0", "0." + nines}} {
		if got, ok := Plus([]byte(c[0]), []byte(c[1])); !ok || string(got) != c[2] {
			t.Errorf("%s + %s = %s (%v), want %s", c[0], c[1], got, ok, c[2])
		}
	}
	for _, c := range [][2]string{{nines, "1"}, {"-" + nines, "-1"}, {"1e100", "0"}, {"1e-101", "0"}, {"0", `"1"`}, {"true", "0"}, {"1e9999999999999999999", "0"}, {nines + "9", "0"}, {"", "0"},
		{nines + "99e-50", "0"}, {"0." + nines + "9e50", "0"}, {"1-1", "0"}, {"1ex", "0"}, {"1e-9223372036854775808", "0"}} {
		if got, ok := Plus([]byte(c[0]), []byte(c[1])); ok {
			t.Errorf("%s + %s = %s, want it refused", c[0], c[1], got)
		}
	}
}
