// Package logfiles keeps a log in files, one for each level and day. Each level has its own
// retention. Use it in addition to the log on standard error if nothing else collects that:
//
//	files, err := logfiles.Open(logfiles.Options{Folder: "/var/log/tidemill", Keep: logfiles.Default()})
//	log := slog.New(slog.NewMultiHandler(stderr, files))
//
// Lines are JSON objects. Days are in UTC. When a day's file of a level is full another one is
// begun:
//
//	debug-2026-01-15.log    info-2026-01-15.log    warn-2026-01-15.log    error-2026-01-15.log
//	                        info-2026-01-15.1.log
//
// Other files in the folder are left alone.
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

// Names of the levels, from the least. A level without a name belongs to the one before: trace
// is with debug, fatal with error.
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

// Keep is how long files are kept, in days after their own day.
type Keep struct{ Debug, Info, Warn, Error int }

// Default is how long files are kept by default.
func Default() Keep { return Keep{Debug: 7, Info: 30, Warn: 90, Error: 365} }

// Options say where and how long a log is kept. Folder is required.
type Options struct {
	Folder string
	Level  slog.Leveler // the least that is written; nil: info
	Keep   Keep
	Most   int64 // bytes of a level's files together; beyond, the oldest are removed; 0: 1 GiB

	// Failed is called when writing begins to fail, and with nil when it works again. It must
	// not write to this log. Nil: failures are not reported.
	Failed func(error)
	Now    func() time.Time // nil: time.Now
}

// parts is the least number of files of a full level, so that the oldest can be removed without
// losing much.
const parts = 16

// sweepEvery is how often expired files are looked for.
const sweepEvery = time.Hour

// Files are an open log: a slog.Handler. They are safe for concurrent use.
type Files struct {
	slog.Handler
	o     Options
	files [len(names)]*file
	stop  context.CancelFunc
	swept sync.WaitGroup
}

// Open makes the folder if it is missing, removes expired files, and opens the log.
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

// sweep removes expired files.
func (f *Files) sweep() error {
	var errs []error
	for _, one := range f.files {
		errs = append(errs, one.sweep())
	}
	return errors.Join(errs...)
}

// Close ends the log. Later records are lost.
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
