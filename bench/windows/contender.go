package windows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
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
	process.Look
	done int // records, by then
}

// measure makes a contender play, and checks the result.
func (b *bench) measure(m measurement) func(ctx context.Context, r, also *result) error {
	return func(ctx context.Context, r, also *result) error {
		looks, err := b.play(ctx, m)
		if err != nil {
			return err
		}
		r.fill(looks[0], looks[1])
		if m.second != "" && len(looks) == 3 {
			also.fill(looks[1], looks[2])
		}
		return nil
	}
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
	profile := b.ProfileOf(m.name)
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
	cmd, err := rounds.Self(ctx, "windows", args...)
	if err != nil {
		return nil, told, err
	}
	found, told, err := process.Converse[report](cmd, b.services)
	for i, look := range found {
		looks = append(looks, spent{look, i * p.records})
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
	return topics, errors.Join(err, wrong, b.services.Rest(ctx))
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
