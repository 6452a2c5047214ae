// Package seldom logs what strangers can make happen as often as they like: the first time at
// once, then one record in a while with how often it happened since. A flood fills no disk.
package seldom

import (
	"log/slog"
	"sync"
	"time"
)

// Every is how often a Log writes a record at most.
const Every = time.Minute

// Log writes one message, at most once in Every. It may be used by many.
type Log struct {
	to      *slog.Logger
	now     func() time.Time
	message string

	mu    sync.Mutex // guards what follows; held for work in memory only
	last  time.Time  // zero: never
	since int        // happened after that
}

// New makes a log that warns with a message.
func New(to *slog.Logger, now func() time.Time, message string) *Log {
	return &Log{to: to, now: now, message: message}
}

// Note counts that it happened, and logs the count with attributes, as slog.Logger has them,
// where a record is due.
func (l *Log) Note(attributes ...any) {
	l.mu.Lock()
	l.since++
	n, now := l.since, l.now()
	due := l.last.IsZero() || now.Sub(l.last) >= Every
	if due {
		l.last, l.since = now, 0
	}
	l.mu.Unlock()
	if due {
		l.to.Warn(l.message, append([]any{"count", n}, attributes...)...)
	}
}
