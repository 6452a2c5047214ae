// Package logfiles keeps a log in files, one for each level and day, each level for a time
// of its own. Use it beside the log on standard error where nobody else collects and keeps
// that:
//
//	files, err := logfiles.Open(logfiles.Options{Folder: "/var/log/tidemill", Keep: logfiles.Default()})
//	log := slog.New(slog.NewMultiHandler(stderr, files))
//
// Lines are JSON objects. A day is one of UTC. Where a day's file of a level has become too
// large there is another one beside it:
//
//	debug-2026-01-15.log    info-2026-01-15.log    warn-2026-01-15.log    error-2026-01-15.log
//	                        info-2026-01-15.1.log
//
// Whatever else lies in the folder is left alone.
package logfiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Names of the levels, from the least. What is below a level that has a name belongs to the
// one before: trace is with debug, fatal with error.
var names = [...]string{"debug", "info", "warn", "error"}

// levelOf is the number of a level's file.
func levelOf(l slog.Level) int {
	switch {
	case l < slog.LevelInfo:
		return 0
	case l < slog.LevelWarn:
		return 1
	case l < slog.LevelError:
		return 2
	}
	return 3
}

// Keep is how long files are kept, in days after the one that they are of.
type Keep struct{ Debug, Info, Warn, Error int }

// Default is how long files are kept where nothing else is said.
func Default() Keep { return Keep{Debug: 7, Info: 30, Warn: 90, Error: 365} }

// Options say where and how long a log is kept. Folder is required.
type Options struct {
	Folder string
	Level  slog.Leveler // the least that is written; nil: info
	Keep   Keep
	Most   int64 // bytes of a level's files together, the oldest of which go; 0: 1 GiB

	// Failed is told when writing begins to fail, and when it has come right again: nil. It
	// must not write to this log. Nil: nobody wants to know.
	Failed func(error)
	Now    func() time.Time // nil: time.Now
}

// parts is into how many files the bytes of a level are cut at the least, so that the oldest
// can go without taking much along.
const parts = 16

// sweepEvery is how often is looked for files that are too old.
const sweepEvery = time.Hour

// Files are an open log: a slog.Handler. They may be used by many at once.
type Files struct {
	slog.Handler
	o     Options
	files [len(names)]*file
	stop  context.CancelFunc
	swept sync.WaitGroup
}

// Open makes the folder where it is missing, removes what is too old, and opens the log.
func Open(o Options) (*Files, error) {
	k := o.Keep
	if o.Folder == "" || o.Most < 0 || k.Debug < 1 || k.Info < 1 || k.Warn < 1 || k.Error < 1 {
		return nil, fmt.Errorf("open log files: want a folder, at least a day for each level (not %+v), and no size below zero", k)
	}
	o.Most = cmp.Or(o.Most, 1<<30)
	if o.Level == nil {
		o.Level = slog.LevelInfo
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("open log files: %w", err)
	}
	f := &Files{o: o}
	var each levels
	for i, keep := range []int{k.Debug, k.Info, k.Warn, k.Error} {
		f.files[i] = &file{folder: o.Folder, level: names[i], keep: keep, most: o.Most, part: max(o.Most/parts, 1), now: o.Now, failed: o.Failed}
		each[i] = slog.NewJSONHandler(f.files[i], &slog.HandlerOptions{Level: o.Level})
	}
	f.Handler = each
	if err := f.sweep(); err != nil {
		return nil, fmt.Errorf("open log files: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.swept.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := f.sweep(); err != nil {
					o.Failed(err)
				}
			}
		}
	})
	return f, nil
}

// sweep removes what is too old.
func (f *Files) sweep() error {
	var errs []error
	for _, one := range f.files {
		errs = append(errs, one.sweep())
	}
	return errors.Join(errs...)
}

// Close ends the log. What is written afterwards is lost.
func (f *Files) Close() error {
	f.stop()
	f.swept.Wait()
	var errs []error
	for _, one := range f.files {
		errs = append(errs, one.close())
	}
	return errors.Join(errs...)
}

// levels are handlers by level.
type levels [len(names)]slog.Handler

// Enabled implements slog.Handler.
func (l levels) Enabled(ctx context.Context, level slog.Level) bool {
	return l[levelOf(level)].Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l levels) Handle(ctx context.Context, r slog.Record) error {
	return l[levelOf(r.Level)].Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l levels) WithAttrs(attrs []slog.Attr) slog.Handler {
	for i := range l {
		l[i] = l[i].WithAttrs(attrs)
	}
	return l
}

// WithGroup implements slog.Handler.
func (l levels) WithGroup(name string) slog.Handler {
	for i := range l {
		l[i] = l[i].WithGroup(name)
	}
	return l
}
