package redissource

import (
	"fmt"
	"testing"
)

// TestReadsGrowWhileManyWait: reads of a deep stream double, to 1,000 or what the option says, stay
// where memory ends them, and begin anew where the stream has less.
func TestReadsGrowWhileManyWait(t *testing.T) {
	for _, c := range []struct {
		batch int
		grows bool
		finds []int  // by each read
		want  string // what each asks for
	}{
		{100, true, []int{100, 200, 400, 800, 1000, 1000}, "[100 200 400 800 1000 1000]"},
		{100, true, []int{100, 200, 350, 350, 99, 100}, "[100 200 400 400 400 100]"},
		{3, true, []int{3, 6, 12, 2, 3, 0}, "[3 6 12 24 3 6]"},
		{1500, true, []int{1500, 1500}, "[1500 1500]"},
		{0, true, []int{5, 0}, "[2000 2000]"},
		{7, false, []int{7, 7, 3, 7}, "[7 7 7 7]"},
	} {
		r := reader{s: &Source{o: Options{Batch: c.batch, Grows: c.grows}}}
		var asks []int
		for _, found := range c.finds {
			asked := r.ask(2000)
			asks = append(asks, asked)
			r.batch.entries = make([]entry, found)
			r.resize(asked)
		}
		if got := fmt.Sprint(asks); got != c.want {
			t.Errorf("%d at first, and %v are found: it asks for %s, want %s", c.batch, c.finds, got, c.want)
		}
	}
	r := reader{s: &Source{o: Options{Batch: 100}}}
	if got := r.ask(7); got != 7 {
		t.Errorf("it asks for %d, and 7 are wanted", got)
	}
}
