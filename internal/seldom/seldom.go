// Package seldom logs events that strangers can cause at any rate: the first one at once, then
// one record in a while with the count since then. A flood does not fill the disk.
package seldom

import (
	"log/slog"
	"sync"
	"time"
)

// Every is the shortest time between two records of a Log.
const Every = time.Minute

// Log writes one message, at most once in Every. It is safe for concurrent use.
type Log struct {
	to      *slog.Logger
	now     func() time.Time
	message string

	mu    sync.Mutex // guards what follows; held for work in memory only
	last  time.Time  // zero: never
	since int        // occurrences after that
}

// New makes a log that warns with a message.
func New(to *slog.Logger, now func() time.Time, message string) *Log {
	return &Log{to: to, now: now, message: message}
}

// Note counts an occurrence, and logs the count with attributes, as slog.Logger has them, if a
// record is due.
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
