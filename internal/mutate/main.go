// Mutate measures what the tests notice. It makes small faults in the code, one at a time (a
// reversed comparison, a missing statement, a number off by one…), runs the tests of the
// package with the fault, then those of the packages that import it, then simulation, and lists
// the faults that nothing noticed. A role's own tests include those of its backend in memory,
// which run its contract.
//
//	go run ./internal/mutate -sample 100 -seed 7             # a sample of all faults there are
//	go run ./internal/mutate -sample 0 policy flow/gate.go   # all faults of these packages and files
//	go run ./internal/mutate -id 3f9ac1d2                    # one fault again, with its change
//
// The tree is never changed: all faults of a package are compiled at once through an overlay,
// and the environment says which one is in force. A survivor is either a case that the suites
// lack, or has no visible effect. The latter is written into equivalent.txt, with the reason,
// and no longer counts.
//
// Other mutation tools for Go have no sample, no seed and no list of reviewed survivors, and
// run only a package's own tests.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// rooms are mutated if no package is named.
var rooms = []string{"flow", "policy", "state", "source", "sink"}

func main() {
	o := options{}
	flag.IntVar(&o.sample, "sample", 100, "how many faults to draw; 0: all there are")
	flag.Uint64Var(&o.seed, "seed", 1, "of the draw; 0: from the clock")
	flag.StringVar(&o.id, "id", "", "only the fault of this id, with its change and what the tests say")
	flag.StringVar(&o.without, "without", "", "leave out packages whose names begin with this, for instance sqlite")
	flag.BoolVar(&o.list, "list", false, "list the faults drawn, and run nothing")
	flag.IntVar(&o.seeds, "sim", 30, "seeds of each simulated system; 0: no simulation")
	flag.BoolVar(&o.own, "own", false, "leave out the tests of packages that import the one with the fault")
	flag.IntVar(&o.jobs, "jobs", 1, "how many faults are tried at once")
	flag.Float64Var(&o.want, "want", 0, "fail where a smaller share than this is found, in percent")
	flag.StringVar(&o.reviewed, "equivalent", "internal/mutate/equivalent.txt", "the reviewed list of faults that change nothing")
	flag.Parse()
	o.packages = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

type options struct {
	sample   int
	seed     uint64
	id       string
	without  string
	list     bool
	seeds    int
	own      bool
	jobs     int
	want     float64
	reviewed string
	packages []string
}

func run(ctx context.Context, o options) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	module, err := load(ctx, root)
	if err != nil {
		return err
	}
	all, err := module.faults(o.packages)
	if err != nil {
		return err
	}
	same, err := readReviewed(filepath.Join(root, o.reviewed))
	if err != nil {
		return err
	}
	if o.without != "" {
		all = slices.DeleteFunc(all, func(f fault) bool { return strings.HasPrefix(path.Base(f.pkg), o.without) })
	}
	left := same.leaveOut(all)
	if len(o.packages) == 0 && o.without == "" {
		if old := same.unused(); len(old) > 0 {
			return fmt.Errorf("%s names faults that are not there any more: %q", o.reviewed, old)
		}
	}
	drawn, err := draw(left, &o)
	if err != nil {
		return err
	}
	fmt.Printf("%d faults, %d of them reviewed as changing nothing; %d drawn, seed %d\n", len(all), len(all)-len(left), len(drawn), o.seed)
	if o.list {
		for _, f := range drawn {
			fmt.Println(f.id(), f)
		}
		return nil
	}
	r, err := newRunner(module, o)
	if err != nil {
		return err
	}
	defer r.close()
	return r.all(ctx, drawn)
}

// draw takes the sample, the same one for the same seed and code.
func draw(all []fault, o *options) ([]fault, error) {
	if o.id != "" {
		for _, f := range all {
			if f.id() == o.id {
				return []fault{f}, nil
			}
		}
		return nil, fmt.Errorf("no fault has the id %q: want one that -list prints and that is not reviewed", o.id)
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	chance := rand.New(rand.NewPCG(o.seed, 0))
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if o.sample > 0 && o.sample < len(all) {
		all = all[:o.sample]
	}
	return all, nil
}

// moduleRoot is the nearest folder above with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod here or above")
		}
		dir = up
	}
}
