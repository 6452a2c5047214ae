package growth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/stores"
)

// held is a store of a role, in this process.
type held struct {
	*stores.Stores
	name string
	job  job
}

// job is what is done with a role's store.
type job interface {
	add(ctx context.Context, n int) error // adds so many, which stay
	do(ctx context.Context, n int) error  // the usual work on so many: it leaves as many as there were
	tidy(ctx context.Context) error       // what the product does now and then, beside its work
	count() int                           // that are there
	pages() []page
}

// roles are the stores of the other roles.
func (o *options) roles() []kind {
	one := func(name string, most, least int, on []string, does func(*stores.Stores) job) kind {
		return kind{name: name, on: on, most: most, part: max(most/50, least), turns: o.turns, at: []float64{0.1, 0.5, 1},
			open: func(ctx context.Context, folder string, _ bool) (side, error) {
				if err := os.MkdirAll(folder, 0o755); err != nil {
					return nil, err
				}
				s, err := stores.Open(ctx, folder, o.on)
				if err != nil {
					return nil, err
				}
				return &held{Stores: s, name: name, job: does(s)}, nil
			}}
	}
	redis, tables := []string{onFile, "redis"}, []string{onFile, "redis", "postgres"}
	return []kind{
		one("queue", o.n/2, least, redis, newJobs),
		one("deadletters", o.n/20, least, tables, newLetters),
		one("ledger", o.n/4, least, tables, newEntries),
		one("windows", o.n/200, least/records, tables, newWindows),
		one("search", o.n/20, least, []string{onFile}, newDocs),
	}
}

// step is how many are added or worked on at once.
const step = 500

// each calls do for each step of n.
func each(ctx context.Context, n int, do func(n int) error) error {
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(min(step, n)); err != nil {
			return err
		}
		n -= step
	}
	return nil
}

// id is the i-th of ids in no order.
func id(i int) string {
	r := rand.NewPCG(1, uint64(i))
	return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
}

func (h *held) grow(ctx context.Context, to int) error {
	began := time.Now()
	for h.count() < to {
		before := h.count()
		if err := cmp.Or(h.job.add(ctx, min(chunk, to-before)), h.job.tidy(ctx)); err != nil {
			return err
		}
		if h.count()/1_000_000 > before/1_000_000 {
			log.Printf("%s: %d, after %v", h.name, h.count(), time.Since(began).Round(time.Second))
		}
	}
	return nil
}

func (h *held) work(n int) func(context.Context) error {
	return func(ctx context.Context) error { return cmp.Or(h.job.do(ctx, n), h.job.tidy(ctx)) }
}

func (h *held) count() int { return h.job.count() }

func (h *held) pages() []page { return h.job.pages() }

func (h *held) cost() time.Duration { return process.Self() + h.CPU() }

func (h *held) bytes() (float64, error) { return h.Bytes() }

func (h *held) rss() float64 { return process.RSS(os.Getpid()) }

func (h *held) profile(file string) (func() error, error) {
	stop, err := process.ProfileSelf(file)
	return func() error { stop(); return nil }, err
}

func (h *held) after(context.Context, *kind, string, func(*result)) error { return nil }

func (h *held) close() error { return h.Close() }

// plain is what jobs have in common. Those whose pages bench/lists and bench/console measure have none.
type plain struct{ made, gone int }

func (p *plain) count() int { return p.made - p.gone }

func (*plain) pages() []page { return nil }

func (*plain) tidy(context.Context) error { return nil }

// missing is the error of a store that does not have what it should have.
func missing(got, want int, what string) error {
	if got == want {
		return nil
	}
	return errors.New(what + ": " + fmt.Sprintf("%d, want %d", got, want))
}
