package ring_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/tidemill/tidemill/flow/ring"
)

func TestCapacityIsRoundedUp(t *testing.T) {
	for n, want := range map[int]int{-1: 1, 0: 1, 1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 1000: 1024, 1 << 20: 1 << 20} {
		if got := ring.New[int](n).Cap(); got != want {
			t.Errorf("New(%d).Cap() = %d, want %d", n, got, want)
		}
	}
}

func TestFirstInFirstOut(t *testing.T) {
	for _, size := range []int{1, 2, 8} {
		r := ring.New[int](size)
		next, want := 0, 0
		for lap := range 5 * size {
			for i := range size {
				if !r.TryPut(next) || r.Len() != i+1 {
					t.Fatalf("size %d, lap %d: no room for number %d", size, lap, i)
				}
				next++
			}
			if r.TryPut(-1) {
				t.Fatalf("size %d: put into a full ring", size)
			}
			for range size {
				if v, ok := r.TryGet(); !ok || v != want {
					t.Fatalf("size %d: got %d, %v, want %d", size, v, ok, want)
				}
				want++
			}
			if v, ok := r.TryGet(); ok || v != 0 {
				t.Fatalf("size %d: got %d out of an empty ring", size, v)
			}
		}
	}
}

func TestBatches(t *testing.T) {
	r := ring.New[int](8)
	got := make([]int, 20)
	for lap := range 20 {
		for _, c := range []struct{ put, room, take, there int }{{5, 5, 3, 3}, {10, 6, 4, 4}, {1, 1, 0, 0}, {3, 3, 20, 8}, {1, 1, 1, 1}, {0, 0, 5, 0}} {
			in := make([]int, c.put)
			for i := range in {
				in[i] = i + 1
			}
			if n := r.TryPutN(in); n != c.room {
				t.Fatalf("lap %d: put %d of %d, want %d", lap, n, c.put, c.room)
			}
			if n := r.TryGetN(got[:c.take]); n != c.there {
				t.Fatalf("lap %d: took %d of %d, want %d", lap, n, c.take, c.there)
			}
		}
	}
}

func TestNothingIsKeptAlive(t *testing.T) {
	type large [1024]byte
	r := ring.New[*large](4)
	var gone atomic.Int32
	for range 2 {
		v := new(large)
		runtime.AddCleanup(v, func(int) { gone.Add(1) }, 0)
		r.TryPut(v)
	}
	r.TryGet()
	r.TryGetN(make([]*large, 1))
	for range 100 {
		if runtime.GC(); gone.Load() == 2 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d of 2 values were freed", gone.Load())
}

// Every value comes out once, and those of one producer in their order for each consumer.
func TestStress(t *testing.T) {
	const producers, consumers, each = 4, 4, 5000
	for _, size := range []int{1, 2, 64, 1024} {
		for _, batch := range []int{1, 7} {
			t.Run(fmt.Sprintf("size=%d/batch=%d", size, batch), func(t *testing.T) {
				t.Parallel()
				r := ring.New[[2]int](size)
				var taken atomic.Int64
				var in, out sync.WaitGroup
				got := make([][][2]int, consumers)
				for p := range producers {
					in.Go(func() {
						buf := make([][2]int, 0, batch)
						for i := 0; i < each; {
							if batch == 1 {
								if r.TryPut([2]int{p, i}) {
									i++
								} else {
									runtime.Gosched()
								}
								continue
							}
							buf = buf[:0]
							for j := i; j < min(i+batch, each); j++ {
								buf = append(buf, [2]int{p, j})
							}
							n := r.TryPutN(buf)
							if i += n; n == 0 {
								runtime.Gosched()
							}
						}
					})
				}
				for c := range consumers {
					out.Go(func() {
						buf := make([][2]int, batch)
						for taken.Load() < producers*each {
							n := 0
							if batch == 1 {
								if v, ok := r.TryGet(); ok {
									buf[0], n = v, 1
								}
							} else {
								n = r.TryGetN(buf)
							}
							if n == 0 {
								runtime.Gosched()
							}
							got[c] = append(got[c], buf[:n]...)
							taken.Add(int64(n))
						}
					})
				}
				in.Wait()
				out.Wait()
				seen := map[[2]int]bool{}
				for c := range consumers {
					last := [producers]int{-1, -1, -1, -1}
					for _, v := range got[c] {
						if seen[v] {
							t.Fatalf("%v came out twice", v)
						}
						if seen[v] = true; v[1] <= last[v[0]] {
							t.Fatalf("consumer %d got %v after %d", c, v, last[v[0]])
						}
						last[v[0]] = v[1]
					}
				}
				if len(seen) != producers*each || r.Len() != 0 {
					t.Errorf("%d values came out of %d, %d are left", len(seen), producers*each, r.Len())
				}
			})
		}
	}
}

// call is one operation of a history: a put of vs, or a take of at most want.
type call struct {
	put  bool
	vs   []int
	want int
}

// fifo is what a ring is, said without concurrency: a bounded queue. A batch may stop
// early, but not before the first value unless the ring is full, or empty.
func fifo(size int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return []int(nil) },
		Step: func(state, input, output any) (bool, any) {
			q, in, out := state.([]int), input.(call), output.([]int)
			if in.put {
				n := len(out)
				ok := len(q)+n <= size && (n > 0 || len(q) == size)
				return ok, slices.Concat(q, out)
			}
			if len(out) == 0 {
				return len(q) == 0, q
			}
			return len(out) <= len(q) && slices.Equal(q[:len(out)], out), q[min(len(out), len(q)):]
		},
		Equal:             func(a, b any) bool { return slices.Equal(a.([]int), b.([]int)) },
		DescribeOperation: func(in, out any) string { return fmt.Sprint(in, " -> ", out) },
	}
}

func TestLinearizable(t *testing.T) {
	for _, size := range []int{1, 2, 4} {
		for round := range 300 {
			history := record(size, round)
			if !porcupine.CheckOperations(fifo(size), history) {
				t.Fatalf("size %d, round %d: no order explains %+v", size, round, history)
			}
		}
	}
}

// The checker must be able to fail: a ring that loses order is found.
func TestLinearizabilityCheckFindsErrors(t *testing.T) {
	put := func(at int64, v int) porcupine.Operation {
		return porcupine.Operation{ClientId: 0, Input: call{put: true, vs: []int{v}}, Call: at, Output: []int{v}, Return: at + 1}
	}
	get := func(at int64, vs ...int) porcupine.Operation {
		return porcupine.Operation{ClientId: 0, Input: call{want: 1}, Call: at, Output: vs, Return: at + 1}
	}
	for name, h := range map[string][]porcupine.Operation{
		"order lost":       {put(1, 1), put(3, 2), get(5, 2)},
		"empty though not": {put(1, 1), get(3)},
		"twice":            {put(1, 1), get(3, 1), get(5, 1)},
	} {
		if porcupine.CheckOperations(fifo(4), h) {
			t.Errorf("%s: not found", name)
		}
	}
}

// record lets a few goroutines at a ring and writes down what happened when.
func record(size, seed int) []porcupine.Operation {
	const clients, calls = 4, 6
	r := ring.New[int](size)
	var clock atomic.Int64
	var g sync.WaitGroup
	histories := make([][]porcupine.Operation, clients)
	begin := make(chan struct{})
	for c := range clients {
		g.Go(func() {
			<-begin
			for i := range calls {
				op := porcupine.Operation{ClientId: c}
				in, out := call{put: (c+i+seed)%2 == 0, want: 1 + (i+seed)%3}, []int{}
				if in.put {
					for j := range in.want {
						in.vs = append(in.vs, c*1000+i*10+j)
					}
				}
				op.Call = clock.Add(1)
				switch {
				case in.put && in.want == 1:
					if r.TryPut(in.vs[0]) {
						out = in.vs
					}
				case in.put:
					out = in.vs[:r.TryPutN(in.vs)]
				case in.want == 1:
					if v, ok := r.TryGet(); ok {
						out = []int{v}
					}
				default:
					out = make([]int, in.want)
					out = out[:r.TryGetN(out)]
				}
				op.Return = clock.Add(1)
				op.Input, op.Output = in, out
				histories[c] = append(histories[c], op)
			}
		})
	}
	close(begin)
	g.Wait()
	return slices.Concat(histories...)
}

// One operation is one value, put and taken.
func BenchmarkRing(b *testing.B) {
	type end struct {
		put func(int) bool
		get func() (int, bool)
	}
	kinds := map[string]func() end{
		"ring": func() end { r := ring.New[int](1024); return end{r.TryPut, r.TryGet} },
		"channel": func() end {
			c := make(chan int, 1024)
			return end{
				func(v int) bool {
					select {
					case c <- v:
						return true
					default:
						return false
					}
				},
				func() (int, bool) {
					select {
					case v := <-c:
						return v, true
					default:
						return 0, false
					}
				}}
		},
	}
	for _, name := range []string{"ring", "channel"} {
		for _, pairs := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/pairs=%d", name, pairs), func(b *testing.B) {
				e := kinds[name]()
				share(b, pairs, func(n int) {
					for i := 0; i < n; {
						if e.put(i) {
							i++
						} else {
							runtime.Gosched()
						}
					}
				}, func(n int) {
					for i := 0; i < n; {
						if _, ok := e.get(); ok {
							i++
						} else {
							runtime.Gosched()
						}
					}
				})
			})
		}
	}
	for _, batch := range []int{10, 100} {
		b.Run(fmt.Sprintf("ring/pairs=1/batch=%d", batch), func(b *testing.B) {
			r := ring.New[int](1024)
			share(b, 1, func(n int) {
				vs := make([]int, batch)
				for n > 0 {
					k := r.TryPutN(vs[:min(batch, n)])
					if n -= k; k == 0 {
						runtime.Gosched()
					}
				}
			}, func(n int) {
				vs := make([]int, batch)
				for n > 0 {
					k := r.TryGetN(vs[:min(batch, n)])
					if n -= k; k == 0 {
						runtime.Gosched()
					}
				}
			})
		})
	}
}

func share(b *testing.B, pairs int, put, get func(n int)) {
	b.ReportAllocs()
	n := max(b.N/pairs, 1)
	var g sync.WaitGroup
	for range pairs {
		g.Go(func() { put(n) })
		g.Go(func() { get(n) })
	}
	g.Wait()
}
