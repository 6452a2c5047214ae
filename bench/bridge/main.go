// Command bridge measures the bridge against its limits and against a peer: the real binary
// between its own real Redis and Mosquittos, all on this machine.
//
//	go run ./bench/bridge            # all of it, a few minutes
//	go run ./bench/bridge -run '^tidemill$|^limit' -rounds 5 -peers=false
//
// Run it from the root of the repository. bench/README.md says what each row means.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
)

// bench is one run.
type bench struct {
	*servers
	dir     string
	entries int
	rate    float64 // entries a second in the latency measurement
	seconds float64 // duration of the latency measurement
	idle    time.Duration
	profile string
	streams int // made so far
}

// template is the stream that every other filled one is a copy of.
const template = "template"

// name makes a name for a stream.
func (b *bench) name() string {
	b.streams++
	return fmt.Sprintf("stream-%d", b.streams)
}

// options are the flags.
type options struct {
	rounds          int
	run             *regexp.Regexp
	peers, json     bool
	bin, bento, dir string
	settings        []string
	entries         int
	rate, seconds   float64
	idle            time.Duration
	profile         string
}

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 && os.Args[1] == "acker" {
		if err := acker(os.Args[2:]); err != nil {
			log.Fatal("acker: ", err)
		}
		return
	}
	var o options
	run := flag.String("run", "", "measure only what this regular expression matches")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each measurement is made, in turns")
	flag.IntVar(&o.entries, "entries", 150_000, "entries of a measurement")
	flag.Float64Var(&o.rate, "rate", 5000, "entries a second for latency")
	flag.Float64Var(&o.seconds, "seconds", 3, "how long latency is measured in a round")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "how long CPU is measured with nothing to do")
	flag.BoolVar(&o.peers, "peers", true, "measure Bento, too, which takes minutes to build the first time")
	flag.BoolVar(&o.json, "json", false, "print a JSON line for each measurement, and one for its medians")
	flag.StringVar(&o.bin, "bin", "", "binary to measure; empty: built now")
	flag.StringVar(&o.bento, "bento", "", "binary of bench/peers/bento; empty: built now")
	flag.StringVar(&o.dir, "dir", "", "folder for the servers' data; empty: a temporary one")
	flag.StringVar(&o.profile, "profile", "", "write a CPU profile of the product here, of 2 s in the steady measurement")
	flag.Func("set", "a setting of the product, NAME=VALUE; may be given again", func(s string) error {
		if !strings.Contains(s, "=") {
			return errors.New("give it as NAME=VALUE")
		}
		o.settings = append(o.settings, s)
		return nil
	})
	flag.Parse()
	var err error
	if o.run, err = regexp.Compile(*run); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // so that servers are ended
	err = measureAll(ctx, o)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// measurement is one row.
type measurement struct {
	name string
	on   *broker
	once bool // in the first round only
	do   func(context.Context, *result) error
}

// Names that ratios refer to.
const (
	drainLimit   = "limit: read, XACK, XDEL"
	publishLimit = "limit: publish"
	bentoName    = "bento"
)

func measureAll(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(o.dir, "bench-bridge")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the brokers' own user must reach it
		return err
	}
	if o.bin, err = process.Build(ctx, o.bin, dir); err != nil {
		return err
	}
	if o.peers && o.bento == "" {
		fmt.Fprintln(os.Stderr, "building Bento")
		if o.bento, err = process.BuildModule(ctx, "bench/peers/bento", ".", filepath.Join(dir, "bento")); err != nil {
			return fmt.Errorf("%w\n-peers=false leaves Bento out", err)
		}
	}
	s, err := startServers(ctx, filepath.Join(dir, "servers"))
	if err != nil {
		return err
	}
	defer s.stop()
	b := &bench{servers: s, dir: dir, entries: o.entries, rate: o.rate, seconds: o.seconds, idle: o.idle, profile: o.profile}
	if err := fill(ctx, b.ctl, template, b.entries); err != nil {
		return err
	}
	all := b.measurements(o)
	results := map[string][]*result{}
	bad := 0
	if !o.json {
		fmt.Printf("%d entries of %d bytes\n%s\n%s\n", b.entries, len(payload(7)), rateHead, latencyHead)
	}
	for round := range o.rounds {
		var now []*result
		for _, m := range all {
			if m.once && round > 0 {
				continue
			}
			r := &result{Round: round + 1, Name: m.name}
			figures.Note(&r.Problem, m.do(ctx, r))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if r.Problem != "" {
				bad++
				for _, k := range []*broker{b.ready, b.stock} { // running work does not count for the next measurement
					_, err := k.took(-1)
					figures.Note(&r.Problem, err)
				}
			}
			now = append(now, r)
			compare(now, m, r)
			results[m.name] = append(results[m.name], r)
			if o.json {
				figures.JSON(os.Stdout, r)
			} else {
				fmt.Println(r.line())
			}
		}
	}
	if !o.json {
		fmt.Printf("\nmedians of %d rounds; ratios are to the same round\n%s\n", o.rounds, rateHead)
	}
	latency := false
	for _, m := range all {
		s := summary(m.name, results[m.name])
		if o.json {
			figures.JSON(os.Stdout, s)
			continue
		}
		if s.Latency != nil && !latency {
			latency = true
			fmt.Println(latencyHead)
		}
		fmt.Println(s.line())
	}
	if bad > 0 {
		return fmt.Errorf("%d measurements had a problem", bad)
	}
	return nil
}

// measurements are the rows in order: limits, product and peer next to each other.
func (b *bench) measurements(o options) (chosen []measurement) {
	by1000 := append([]string{"REDIS_BATCH_SIZE=1000"}, o.settings...) // as the limit and Bento read
	product, shipped, peer := tidemill(o.bin, b.dir, by1000...), tidemill(o.bin, b.dir, o.settings...), bento(o.bento)
	add := func(name string, on *broker, do func(context.Context, *result) error) {
		if o.run.MatchString(name) && (o.peers || !strings.Contains(name, bentoName)) {
			chosen = append(chosen, measurement{name: name, on: on, do: do})
		}
	}
	add(drainLimit, b.ready, b.limitDrain)
	for _, on := range []*broker{b.ready, b.stock} {
		add(publishLimit+on.name, on, b.limitPublish(on))
		add(bentoName+on.name, on, b.drain(peer, on, silent))
		add("tidemill"+on.name, on, b.drain(product, on, silent))
		if on == b.ready {
			add("tidemill, REDIS_BATCH_SIZE=100", on, b.drain(shipped, on, silent))
			add("tidemill, receiver acks in bulk", on, b.drain(product, on, inBulk))
			add("tidemill, receiver acks singly", on, b.drain(product, on, oneByOne))
		}
	}
	for _, on := range []*broker{b.ready, b.stock} {
		add("latency: by hand"+on.name, on, b.latency(on, byHand))
		if on == b.ready {
			add("latency: bento", on, b.latency(on, running(peer)))
		}
		add("latency: tidemill"+on.name, on, b.latency(on, running(product)))
	}
	add("steady: tidemill", b.ready, b.steady(product, b.ready))
	if n := len(chosen); n > 0 && strings.HasPrefix(chosen[n-1].name, "steady") {
		chosen[n-1].once = true
	}
	return chosen
}
