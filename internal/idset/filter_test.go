package idset

import (
	"math/rand/v2"
	"testing"
)

func TestAFilterKnowsItsIDsAndFewOthers(t *testing.T) {
	for _, count := range []int{1, 100, 50_000} {
		rng := rand.New(rand.NewPCG(1, 2))
		f := newFilter(count)
		in := make([]uint64, count)
		for i := range in {
			in[i] = rng.Uint64()
			f.add(in[i])
		}
		for _, h := range in {
			if !f.maybe(h) {
				t.Fatalf("a filter of %d ids denies one of them", count)
			}
		}
		passed := 0
		for range 200_000 {
			if f.maybe(rng.Uint64()) {
				passed++
			}
		}
		if passed > 600 { // 0.3 %; about 0.1 % are expected
			t.Errorf("a filter of %d ids passes %d of 200,000 others", count, passed)
		}
	}
}
