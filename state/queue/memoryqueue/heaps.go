package memoryqueue

import "time"

// positions is a heap (container/heap): the lowest first.
type positions []uint64

func (p positions) Len() int           { return len(p) }
func (p positions) Less(i, j int) bool { return p[i] < p[j] }
func (p positions) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *positions) Push(x any)        { *p = append(*p, x.(uint64)) }
func (p *positions) Pop() any          { return pop(p) }

// instant is when something happens to the job at a position.
type instant struct {
	at    time.Time
	pos   uint64
	epoch uint32 // of the lease that ends then
}

// times is a heap (container/heap): the earliest first, of those the lowest position.
type times []instant

func (t times) Len() int { return len(t) }
func (t times) Less(i, j int) bool {
	if t[i].at.Equal(t[j].at) {
		return t[i].pos < t[j].pos
	}
	return t[i].at.Before(t[j].at)
}
func (t times) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *times) Push(x any)   { *t = append(*t, x.(instant)) }
func (t *times) Pop() any     { return pop(t) }

func pop[S ~[]E, E any](s *S) E {
	last := len(*s) - 1
	e := (*s)[last]
	*s = (*s)[:last]
	return e
}
