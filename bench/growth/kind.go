package growth

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/rounds"
)

const (
	least    = 2000   // a turn has, of whatever is measured
	seed     = 20_000 // a fresh store has, unless that were more than a twentieth of all
	readings = 20     // of each kind of page
)

// side is a store that is measured: the one that grows, or a fresh one.
type side interface {
	grow(ctx context.Context, to int) error                                    // adds until it holds so many
	count() int                                                                // that it holds
	work(n int) func(context.Context) error                                    // prepares the usual work on so many more
	pages() []page                                                             // that people read; nil: other benchmarks measure them
	cost() time.Duration                                                       // CPU so far of all processes that have a part in it
	bytes() (float64, error)                                                   // of all files
	rss() float64                                                              // MiB of the process that does the work
	profile(file string) (stop func() error, err error)                        // of the CPU of that process
	after(ctx context.Context, k *kind, name string, tell func(*result)) error // what is measured at the end; nothing: it tells none
	close() error
}

// page is a page that is read. Its reading says how long it took, without what has to be known before.
type page struct {
	name string
	read func(context.Context) (time.Duration, error)
}

// kind is one that is measured.
type kind struct {
	name  string
	on    []string  // where it can be
	most  int       // at the end
	at    []float64 // sizes, as shares of most; a fresh one is before them
	part  int       // of a turn
	turns int
	open  func(ctx context.Context, folder string, fresh bool) (side, error)
}

// seed is how many a fresh one has.
func (k *kind) seed() int { return min(seed, k.most/20) }

// measure measures at all sizes. What fails is a problem of its row, and ends this kind only.
func (k *kind) measure(ctx context.Context, o *options, folder string, tell func(*result)) (err error) {
	at := k.name
	failed := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			tell(&result{Common: rounds.Common{Name: at, Problem: err.Error()}})
		}
		return nil
	}
	big, err := k.open(ctx, filepath.Join(folder, "big"), false)
	if err != nil {
		return failed(err)
	}
	defer func() { err = errors.Join(err, big.close()) }()
	sizes := []int{k.seed()}
	for _, share := range k.at {
		if size := int(share * float64(k.most)); size > k.seed() {
			sizes = append(sizes, size)
		}
	}
	for _, size := range sizes {
		at = fmt.Sprintf("%s at %d", k.name, size)
		began := time.Now()
		if err := big.grow(ctx, size); err != nil {
			return failed(err)
		}
		log.Printf("%s: after %v", at, time.Since(began).Round(time.Second))
		if err := k.row(ctx, o, big, folder, size, tell); err != nil {
			return failed(err)
		}
	}
	return failed(big.after(ctx, k, at, tell))
}

// took is what a turn took.
type took struct{ rate, cpu float64 }

// row measures at one size, in turns.
func (k *kind) row(ctx context.Context, o *options, big side, folder string, size int, tell func(*result)) error {
	name := fmt.Sprintf("%s at %d", k.name, size)
	var work, reads []*result
	if o.Wants(name) {
		work = append(work, &result{Common: rounds.Common{Name: name}, Size: float64(size)})
	}
	pages := map[string]bool{}
	for _, p := range big.pages() {
		r := &result{Common: rounds.Common{Name: name + ": " + p.name}, Size: float64(size)}
		if o.Wants(r.Name) {
			reads, pages[p.name] = append(reads, r), true
		}
	}
	if len(work)+len(reads) == 0 {
		return nil
	}
	var mine, theirs []took
	for turn := range k.turns {
		last := turn == k.turns-1
		if err := k.beside(ctx, folder, func(fresh side) error {
			for i, s := range []side{big, fresh} {
				if turn%2 == 1 { // as the second of two has it better, or worse
					i = 1 - i
					s = []side{big, fresh}[i]
				}
				profile := ""
				if last {
					profile = o.ProfileOf([]string{name, name + ", fresh"}[i])
				}
				t, err := turnOf(ctx, s, k.part, profile)
				if err != nil {
					return err
				}
				*[]*[]took{&mine, &theirs}[i] = append(*[]*[]took{&mine, &theirs}[i], t)
			}
			if !last {
				return nil
			}
			return read(ctx, big, fresh, pages, reads)
		}); err != nil {
			return err
		}
	}
	for _, r := range work {
		b, err := big.bytes()
		if err != nil {
			return err
		}
		r.Bytes, r.RSS = b/float64(big.count()), big.rss()
		compare(r, mine, theirs)
		tell(r)
	}
	for _, r := range reads {
		tell(r)
	}
	return nil
}

// beside does something with a fresh one.
func (k *kind) beside(ctx context.Context, folder string, do func(side) error) (err error) {
	folder = filepath.Join(folder, "fresh")
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	fresh, err := k.open(ctx, folder, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.close()) }()
	if err := fresh.grow(ctx, k.seed()); err != nil {
		return err
	}
	return do(fresh)
}

// turnOf measures a turn.
func turnOf(ctx context.Context, s side, n int, profile string) (t took, err error) {
	do := s.work(n)
	stop, err := s.profile(profile)
	if err != nil {
		return t, err
	}
	began, before := time.Now(), s.cost()
	err = do(ctx)
	took, cpu := time.Since(began), s.cost()-before
	t.rate, t.cpu = float64(n)/took.Seconds(), cpu.Seconds()*1e6/float64(n)
	return t, errors.Join(err, stop())
}

// compare fills a row with medians of turns; ratios are those of the same turn.
func compare(r *result, mine, theirs []took) {
	var rates, cpus, others, rateOf, cpuOf []float64
	for i, t := range mine {
		rates, cpus, others = append(rates, t.rate), append(cpus, t.cpu), append(others, theirs[i].cpu)
		rateOf = append(rateOf, t.rate/theirs[i].rate)
		if theirs[i].cpu > 0 {
			cpuOf = append(cpuOf, t.cpu/theirs[i].cpu)
		}
	}
	r.Rate, r.CPU, r.FreshCPU = figures.Median(rates), figures.Median(cpus), figures.Median(others)
	r.RateOf, r.CPUOf = figures.Median(rateOf), figures.Median(cpuOf)
}

// read reads pages of both, one after the other.
func read(ctx context.Context, big, fresh side, chosen map[string]bool, rows []*result) error {
	others := fresh.pages()
	i := 0
	for j, p := range big.pages() {
		if !chosen[p.name] {
			continue
		}
		var mine, theirs []time.Duration
		for range readings {
			a, err := p.read(ctx)
			b, err2 := others[j].read(ctx)
			if err := errors.Join(err, err2); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			mine, theirs = append(mine, a), append(theirs, b)
		}
		r := rows[i]
		r.P50, r.P95, r.Fresh = figures.At(mine, 0.5), figures.At(mine, 0.95), figures.At(theirs, 0.5)
		if r.Fresh > 0 {
			r.P50Of = r.P50 / r.Fresh
		}
		i++
	}
	return nil
}
