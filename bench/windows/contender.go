package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
)

// play is a contender and the part it plays.
type play struct {
	who, what string
	records   int
	embedded  bool
	whole     bool
	args      []string
}

// offsets is how many offsets topics have with all of a window.
func (p *play) offsets() int {
	if p.whole {
		return p.records + 2*partitions // the end of a transaction has one in each
	}
	return p.records
}

// spent is what every process has used at one moment.
type spent struct {
	at                time.Time
	own, redis, kafka time.Duration
	rss               float64
	done              int // records, by then
}

func (b *bench) look(p *process.Program) spent {
	return spent{at: time.Now(), own: process.CPU(p.PID()), redis: b.services.CPU("redis"), kafka: b.services.CPU("kafka"), rss: math.Round(process.MostRSS(p.PID()))}
}

// measure makes a contender play, and checks the result.
func (b *bench) measure(ctx context.Context, m measurement) []*result {
	r := &result{Name: m.name}
	looks, err := b.play(ctx, m)
	if err != nil {
		figures.Note(&r.Problem, err)
		return []*result{r}
	}
	all := []*result{r}
	if m.second != "" && len(looks) == 3 {
		all = append(all, &result{Name: m.second})
	}
	for i, r := range all {
		r.fill(looks[i], looks[i+1])
	}
	return all
}

func (b *bench) play(ctx context.Context, m measurement) (looks []spent, err error) {
	p := m.play
	b.plays++
	name := fmt.Sprintf("play-%d", b.plays)
	folder, err := os.MkdirTemp(b.folder, "part")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	in := "in"
	if !p.embedded {
		if in, err = b.prepare(ctx, p, name); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, b.drop(context.WithoutCancel(ctx), name)) }()
	}
	profile := ""
	if b.profiles != "" {
		profile = b.profiles + "-" + strings.Join(strings.FieldsFunc(m.name, func(r rune) bool { return strings.ContainsRune(" :,+", r) }), "-") + ".prof"
	}
	told := report{Stored: p.records}
	if p.what != "store" {
		told = report{Delivered: p.records}
	}
	if p.who == "binary" {
		looks, err = b.binary(ctx, p, name, in, folder, profile)
	} else {
		looks, told, err = b.child(ctx, p, name, in, folder, profile)
	}
	if err != nil {
		return nil, err
	}
	want := p.offsets()
	written := want
	if !p.embedded && p.what != "store" {
		if written, err = b.written(ctx, name, want); err != nil {
			return nil, err
		}
	}
	return looks, judge(p, told, want, written)
}

// child makes a program of ours play a part.
func (b *bench) child(ctx context.Context, p play, name, in, folder, profile string) (looks []spent, told report, err error) {
	args := append([]string{p.who, p.what, "-records", strconv.Itoa(p.records), "-folder", folder, "-group", name, "-in", in, "-out", name, "-profile", profile,
		"-page", strconv.Itoa(b.page), "-together", strconv.Itoa(b.together), "-memory", strconv.Itoa(b.memory), fmt.Sprintf("-whole=%t", p.whole)}, p.args...)
	if !p.embedded {
		args = append(args, "-kafka", b.services.Addr("kafka"), "-redis", b.services.Addr("redis"))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, told, err
	}
	looks, told, err = b.converse(exec.CommandContext(ctx, self, args...))
	for i := range looks {
		looks[i].done = i * p.records
	}
	return looks, told, err
}

// prepare fills servers with the initial data of a part. It returns the topics to be read.
func (b *bench) prepare(ctx context.Context, p play, name string) (topics string, err error) {
	if err := errors.Join(b.empty(ctx), b.topics(ctx, name)); err != nil {
		return "", err
	}
	in := p.records
	if p.what == "deliver" {
		if in = 0; p.who == "limit" {
			err = limitFill(ctx, b.redis, p.records)
		} else {
			err = b.window(ctx, p.records)
		}
	}
	topics, wrong := b.filled(ctx, in)
	b.rest(ctx)
	return topics, errors.Join(err, wrong)
}

// judge says what is wrong with a contender's result.
func judge(p play, told report, want, written int) error {
	if told.Failed != "" {
		return errors.New(told.Failed)
	}
	if p.what == "store" {
		if told.Stored != p.records {
			return fmt.Errorf("%d records of %d are stored", told.Stored, p.records)
		}
		return nil
	}
	if told.Delivered != p.records || told.Stored != 0 || written != want {
		return fmt.Errorf("%d records of %d were delivered, %d offsets of %d written, %d records are left", told.Delivered, p.records, written, want, told.Stored)
	}
	return nil
}

// converse runs a contender, and reads the figures when it begins, in between and when it ends.
func (b *bench) converse(cmd *exec.Cmd) (looks []spent, told report, err error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, told, err
	}
	defer out.Close()
	cmd.Stdout = in
	on, err := cmd.StdinPipe()
	if err != nil {
		return nil, told, err
	}
	p, err := process.Start(cmd)
	_ = in.Close() // it has its own
	if err != nil {
		return nil, told, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, told, err
		}
		switch line = strings.TrimSpace(line); line {
		case "begin", "stored", "end":
			now := b.look(p)
			_, err = io.WriteString(on, "\n")
			if line == "begin" {
				now.at = time.Now()
			}
			looks = append(looks, now)
		default:
			err = json.Unmarshal([]byte(line), &told)
		}
		if err != nil {
			return nil, told, fmt.Errorf("it said %q: %w", line, err)
		}
	}
	<-p.Ended()
	if len(looks) < 2 {
		err = errors.New("it ended before it was done")
	}
	return looks, told, err
}
