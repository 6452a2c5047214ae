// Command windows measures the windows system against its limits: records out of Kafka into a
// window in Redis, and a window out of Redis into Kafka, each contender a process of its own on
// real servers, all on this machine; and the same embedded in one file.
//
//	go run ./bench/windows             # all of it, some minutes
//	go run ./bench/windows -run 'store' -rounds 5 -million=0
//
// Run it from the root of the repository. bench/README.md says what each row means.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// options are the flags.
type options struct {
	rounds, records, million int
	page, together, memory   int
	run                      *regexp.Regexp
	json                     bool
	dir, profiles, bin       string
}

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // so that servers are ended
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 1 && (args[0] == "tidemill" || args[0] == "limit") {
		return playPart(ctx, args[0], args[1:])
	}
	var o options
	f := flag.NewFlagSet("windows", flag.ExitOnError)
	only := f.String("run", "", "measure only what this regular expression matches")
	f.IntVar(&o.rounds, "rounds", 3, "how often each measurement is made, in turns")
	f.IntVar(&o.records, "records", 300_000, "records of a window")
	f.IntVar(&o.million, "million", 1_000_000, "records of the window that shows what memory is needed, once; 0: leave it out")
	f.IntVar(&o.page, "page", 0, "records of a window that the product has in memory at a time; 0: as it ships")
	f.IntVar(&o.together, "together", 0, "records that the product stores together; 0: as it ships")
	f.IntVar(&o.memory, "memory", 0, "MiB at which the product collects garbage more often; 0: as it ships")
	f.BoolVar(&o.json, "json", false, "print a JSON line for each measurement, and one for its medians")
	f.StringVar(&o.dir, "dir", "", "folder for the servers' data; empty: a temporary one")
	f.StringVar(&o.bin, "bin", "", "the product's binary; empty: it is built")
	f.StringVar(&o.profiles, "profile", "", "write CPU profiles of all that is measured to files whose names begin so")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.records < 1 || o.million < 0 {
		return fmt.Errorf("%d rounds of %d records: want at least one of each", o.rounds, o.records)
	}
	var err error
	if o.run, err = regexp.Compile(*only); err != nil {
		return err
	}
	return measureAll(ctx, o)
}

// playPart is a contender's process.
func playPart(ctx context.Context, who string, args []string) error {
	p := &part{What: args[0], Talk: process.NewTalk()}
	f := flag.NewFlagSet(who, flag.ExitOnError)
	p.flags(f)
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if p.What != "store" && p.What != "deliver" && p.What != "both" {
		return fmt.Errorf("there is no part %q", p.What)
	}
	if who == "tidemill" {
		return playProduct(ctx, p)
	}
	return playLimit(ctx, p)
}

// measurement is one row, or two if a part says where its second half begins.
type measurement struct {
	name    string
	limits  []string // the rows of its limits: it is compared with the fastest
	second  string   // name of the second half
	records int
	once    bool
	play    play
}

// What is measured.
const (
	storing    = ": store"
	delivering = ": deliver"
	atOnce     = ": deliver, one transaction"
)

// measurements are the rows in order: those that others are compared with come first.
func (b *bench) measurements() (chosen []measurement) {
	add := func(m measurement) {
		m.play.records = m.records
		if b.run.MatchString(m.name) && m.records > 0 {
			chosen = append(chosen, m)
		}
	}
	row := func(name string, p play, limits ...string) {
		add(measurement{name: name, limits: limits, records: b.records, play: p})
	}
	const one, many, bare, servers, file = "limit, a command each", "limit, one command for all", "limit", "tidemill, kafka + redis", "tidemill, one file"
	row(one+storing, play{who: "limit", what: "store"})
	row(many+storing, play{who: "limit", what: "store", args: []string{"-many"}})
	row(servers+storing, play{who: "binary", what: "store"}, one+storing, many+storing)
	row(file+storing, play{who: "tidemill", what: "store", embedded: true})
	row(bare+delivering, play{who: "limit", what: "deliver"})
	row(bare+atOnce, play{who: "limit", what: "deliver", whole: true})
	row(servers+delivering, play{who: "binary", what: "deliver"}, bare+delivering)
	row(servers+atOnce, play{who: "binary", what: "deliver", whole: true}, bare+atOnce)
	row(file+delivering, play{who: "tidemill", what: "deliver", embedded: true})
	for _, m := range []struct {
		name string
		play play
	}{{servers, play{who: "binary"}}, {servers + ", transactions", play{who: "binary", whole: true}}, {file, play{who: "tidemill", embedded: true}}} {
		m.play.what = "both"
		name := fmt.Sprintf("%s, %d records", m.name, b.million)
		add(measurement{name: name + storing, second: name + delivering, records: b.million, once: true, play: m.play})
	}
	return chosen
}

func measureAll(ctx context.Context, o options) error {
	folder, err := os.MkdirTemp(o.dir, "bench-windows")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o755); err != nil { // the servers' own users must reach it
		return err
	}
	b := &bench{options: o, folder: folder}
	if err := b.start(ctx, filepath.Join(folder, "servers")); err != nil {
		return err
	}
	defer b.stop()
	if b.bin, err = process.Build(ctx, o.bin, folder); err != nil {
		return err
	}
	all := b.measurements()
	if !o.json {
		fmt.Printf("%d records, of %s\n%s\n", o.records, sizes(), head)
	}
	var order []string
	results, bad := map[string][]*result{}, 0
	for round := range o.rounds {
		var now []*result
		for _, m := range all {
			if m.once && round > 0 {
				continue
			}
			for _, r := range b.measure(ctx, m) {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r.Round = round + 1
				if r.Problem != "" {
					bad++
				}
				compare(now, m, r)
				now = append(now, r)
				if results[r.Name] == nil {
					order = append(order, r.Name)
				}
				results[r.Name] = append(results[r.Name], r)
				o.print(r)
			}
		}
	}
	if !o.json {
		fmt.Printf("\nmedians of %d rounds; ratios are to the same round\n%s\n", o.rounds, head)
	}
	for _, name := range order {
		o.print(summary(name, results[name]))
	}
	if bad > 0 {
		return fmt.Errorf("%d measurements had a problem", bad)
	}
	return nil
}

func (o *options) print(r *result) {
	if o.json {
		figures.JSON(os.Stdout, r)
		return
	}
	fmt.Println(r.line())
}

// sizes says how large records are.
func sizes() string {
	var events, mentions, eventBytes, mentionBytes int
	for _, d := range newRecords().take(3000) {
		if d.kind == record.Event {
			events, eventBytes = events+1, eventBytes+len(d.body)
		} else {
			mentions, mentionBytes = mentions+1, mentionBytes+len(d.body)
		}
	}
	return fmt.Sprintf("which a third are events of %d bytes and the others mentions of %d", eventBytes/events, mentionBytes/mentions)
}
