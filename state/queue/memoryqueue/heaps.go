package memoryqueue

import "time"

// oldest is a heap (container/heap) of waiting jobs: the lowest position first. Each job
// knows its index, so that it can be removed out of turn.
type oldest []*job

func (o oldest) Len() int           { return len(o) }
func (o oldest) Less(i, j int) bool { return o[i].pos < o[j].pos }
func (o oldest) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].index, o[j].index = i, j
}
func (o *oldest) Push(x any) {
	j := x.(*job)
	j.index = len(*o)
	*o = append(*o, j)
}
func (o *oldest) Pop() any { return pop(o) }

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
