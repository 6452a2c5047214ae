// Package windows measures the windows system against its limits: records out of Kafka into a
// window in Redis, and a window out of Redis into Kafka, each contender a process of its own on
// real servers, all on this machine; and the same embedded in one file.
package windows

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// options are the flags.
type options struct {
	*rounds.Flags
	records, million       int
	page, together, memory int
}

// Bench is the benchmark.
var Bench = rounds.Bench{Name: "windows", About: "windows from Kafka through Redis to Kafka, and embedded", Run: run, Part: playPart}

func run(ctx context.Context, args []string) (err error) {
	b := &bench{}
	if b.Flags, err = rounds.Parse("windows", 3, args, func(f *flag.FlagSet) {
		f.IntVar(&b.records, "records", 300_000, "records of a window")
		f.IntVar(&b.million, "million", 1_000_000, "records of the window that shows what memory is needed, once; 0: leave it out")
		f.IntVar(&b.page, "page", 0, "records of a window that the product has in memory at a time; 0: as it ships")
		f.IntVar(&b.together, "together", 0, "records that the product stores together; 0: as it ships")
		f.IntVar(&b.memory, "memory", 0, "MiB at which the product collects garbage more often; 0: as it ships")
		f.StringVar(&b.bin, "bin", "", "the product's binary; empty: it is built")
	}); err != nil {
		return err
	}
	if b.records < 1 || b.million < 0 {
		return fmt.Errorf("%d records and %d: want at least one, and none that is negative", b.records, b.million)
	}
	folder, remove, err := b.Folder()
	if err != nil {
		return err
	}
	defer remove()
	b.folder = folder
	if err := b.start(ctx, filepath.Join(folder, "servers")); err != nil {
		return err
	}
	defer b.stop()
	if b.bin, err = process.Build(ctx, b.bin, folder); err != nil {
		return err
	}
	var rows []rounds.Row[result]
	for _, m := range b.measurements() {
		rows = append(rows, rounds.Row[result]{Name: m.name, Also: m.second, Once: m.once, Do: b.measure(m), Ratios: func(round []*result, r *result) { compare(round, m.limits, r) }})
	}
	t := rounds.Table[result, *result]{Flags: b.Flags, Title: fmt.Sprintf("%d records, of %s", b.records, sizes()),
		Round: rounds.InTurns[result, *result](rows)}
	return t.Measure(ctx)
}

// playPart is a contender's process.
func playPart(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("want who plays, and which part")
	}
	who := args[0]
	p := &part{What: args[1], Talk: process.NewTalk()}
	f := flag.NewFlagSet(who, flag.ContinueOnError)
	p.flags(f)
	if err := f.Parse(args[2:]); err != nil {
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
		if b.Wants(m.name) && m.records > 0 {
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
