// Package bridge measures the bridge against its limits and against a peer: the real binary
// between its own real Redis and Mosquittos, all on this machine.
package bridge

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
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
	*rounds.Flags
	peers      bool
	bin, bento string
	settings   settings
}

// settings are those of the product, NAME=VALUE each.
type settings []string

// Set adds one.
func (s *settings) Set(one string) error {
	if !strings.Contains(one, "=") {
		return errors.New("give it as NAME=VALUE")
	}
	*s = append(*s, one)
	return nil
}

func (s *settings) String() string { return strings.Join(*s, " ") }

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "bridge", About: "the bridge from a Redis stream to MQTT, beside Bento", Run: run, Part: acker}

func run(ctx context.Context, args []string) (err error) {
	var o options
	b := &bench{}
	if o.Flags, err = rounds.Parse("bridge", 3, args, func(f *flag.FlagSet) {
		f.IntVar(&b.entries, "entries", 150_000, "entries of a measurement")
		f.Float64Var(&b.rate, "rate", 5000, "entries a second for latency")
		f.Float64Var(&b.seconds, "seconds", 3, "how long latency is measured in a round")
		f.DurationVar(&b.idle, "idle", 10*time.Second, "how long CPU is measured with nothing to do")
		f.BoolVar(&o.peers, "peers", true, "measure Bento, too, which takes minutes to build the first time")
		f.StringVar(&o.bin, "bin", "", "binary to measure; empty: built now")
		f.StringVar(&o.bento, "bento", "", "binary of bench/peers/bento; empty: built now")
		f.Var(&o.settings, "set", "a setting of the product, NAME=VALUE; may be given again")
	}); err != nil {
		return err
	}
	dir, remove, err := o.Folder()
	if err != nil {
		return err
	}
	defer remove()
	b.dir, b.profile = dir, o.ProfileOf("steady: tidemill")
	if o.bin, err = process.Build(ctx, o.bin, dir); err != nil {
		return err
	}
	if o.peers && o.bento == "" {
		fmt.Fprintln(os.Stderr, "building Bento")
		if o.bento, err = process.BuildModule(ctx, "bench/peers/bento", ".", filepath.Join(dir, "bento")); err != nil {
			return fmt.Errorf("%w\n-peers=false leaves Bento out", err)
		}
	}
	if b.servers, err = startServers(ctx, filepath.Join(dir, "servers")); err != nil {
		return err
	}
	defer b.stop()
	if err := fill(ctx, b.ctl, template, b.entries); err != nil {
		return err
	}
	var rows []rounds.Row[result]
	for _, m := range b.measurements(o) {
		row := rounds.One(m.name, b.quietly(m.do))
		row.Once, row.Ratios = m.once, func(round []*result, r *result) { compare(round, m, r) }
		rows = append(rows, row)
	}
	t := rounds.Table[result, *result]{Flags: o.Flags, Title: fmt.Sprintf("%d entries of %d bytes", b.entries, len(payload(7))),
		Round: rounds.InTurns[result, *result](rows)}
	return t.Measure(ctx)
}

// quietly waits, where a measurement fails, until the brokers have nothing to do: running work must
// not count for the next one.
func (b *bench) quietly(do func(context.Context, *result) error) func(context.Context, *result) error {
	return func(ctx context.Context, r *result) error {
		err := do(ctx, r)
		if err != nil && ctx.Err() == nil {
			for _, k := range []*broker{b.ready, b.stock} {
				_, more := k.took(-1)
				err = errors.Join(err, more)
			}
		}
		return err
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
	drainLimit    = "limit: read, XACK, XDEL"
	publishLimit  = "limit: publish"
	answeredLimit = "limit: receiver acks "
	answered      = "tidemill, receiver acks "
	bentoName     = "bento"
)

// measurements are the rows in order: limits, product and peer next to each other.
func (b *bench) measurements(o options) (chosen []measurement) {
	by1000 := append([]string{"REDIS_BATCH_SIZE=1000"}, o.settings...) // as the limit and Bento read
	product, shipped, peer := tidemill(o.bin, b.dir, by1000...), tidemill(o.bin, b.dir, o.settings...), bento(o.bento)
	add := func(name string, on *broker, do func(context.Context, *result) error) {
		if o.Wants(name) && (o.peers || !strings.Contains(name, bentoName)) {
			chosen = append(chosen, measurement{name: name, on: on, do: do})
		}
	}
	add(drainLimit, b.ready, b.limitDrain)
	for _, on := range []*broker{b.ready, b.stock} {
		add(publishLimit+on.name, on, b.limitPublish(on))
		add(bentoName+on.name, on, b.drain(peer, on, silent))
		add("tidemill"+on.name, on, b.drain(product, on, silent))
		if on == b.ready {
			add("tidemill, all defaults", on, b.drain(shipped, on, silent))
			add(answeredLimit+"in bulk", on, b.limitAnswered(on, inBulk))
			add(answered+"in bulk", on, b.drain(product, on, inBulk))
			add(answeredLimit+"singly", on, b.limitAnswered(on, oneByOne))
			add(answered+"singly", on, b.drain(product, on, oneByOne))
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
