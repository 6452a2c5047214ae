package figures

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Readings are what values that are read in one place have in common.
type Readings struct {
	Life  context.Context  // ends them
	Now   func() time.Time // the clock
	Begun sync.WaitGroup   // those that are under way
}

// Latest is a value that takes its time to be read. However many ask, it is read once at a time, and
// nobody waits long for it: what was read before is good enough then, with its age.
type Latest[T any] struct {
	Read   func(context.Context) (T, error)
	Fresh  time.Duration // a value that is younger is not read again
	Most   time.Duration // where reading takes long, one that is younger than Share times that, up to Most; 0: Fresh alone
	Share  int           // for how many times as long as a reading took nobody reads again; 0: 50
	Good   time.Duration // who can have a value that is younger than this waits for a newer one for 25 ms alone; 0: for Wait
	Wait   time.Duration // how long who asks waits for a newer one
	Within time.Duration // how long a reading may take
	In     *Readings

	mu      sync.Mutex // guards what follows
	value   T
	at      time.Time // when value was read; zero: never
	err     error     // why the last reading failed; nil: it did not
	tried   time.Time
	changed bool          // what was read is not so any more, and no reading has begun since
	awaited bool          // the reading has to be awaited: it follows a change
	took    time.Duration // the last reading
	reading chan struct{} // closed at the end of the reading; nil: nobody reads
}

// Get is the value, when it was read, and why there is no newer one. The time is zero where it was
// never read.
func (l *Latest[T]) Get(ctx context.Context) (value T, at time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range 2 { // a reading may have begun before what has changed since
		if l.reading == nil && (l.changed || l.tried.IsZero() || l.In.Now().Sub(l.tried) >= max(l.Fresh, min(l.Most, l.took*time.Duration(cmp.Or(l.Share, readShare))))) {
			l.begin()
		}
		if l.reading == nil {
			break
		}
		reading, left, late, before := l.reading, l.Wait, errSlow, l.changed
		if !before && !l.awaited && !l.at.IsZero() && l.In.Now().Sub(l.at) < l.Good {
			left, late = min(left, brief), nil
		}
		left -= l.In.Now().Sub(l.tried)
		l.mu.Unlock()
		answered := await(ctx, reading, left)
		l.mu.Lock()
		if !answered {
			return l.value, l.at, cmp.Or(l.err, late)
		}
		if !before {
			break
		}
	}
	return l.value, l.at, l.err
}

// Changed says that what was read is not so any more: who asks from now on waits for a newer value.
func (l *Latest[T]) Changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = !l.tried.IsZero()
}

// brief is how long a newer value is awaited where an older one is good enough.
const brief = 25 * time.Millisecond

// readShare is the default of Share: readings take 2% of the time at most, if Most lets them.
const readShare = 50

// await waits for the end of a reading, and says whether it came.
func await(ctx context.Context, reading <-chan struct{}, most time.Duration) bool {
	wait := time.NewTimer(most)
	defer wait.Stop()
	select {
	case <-reading:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}

// errSlow is why a value is old while it is being read.
var errSlow = errors.New("the store has not answered yet")

// begin begins to read; l.mu is held.
func (l *Latest[T]) begin() {
	done := make(chan struct{})
	l.reading, l.tried, l.awaited, l.changed = done, l.In.Now(), l.changed, false
	l.In.Begun.Go(func() {
		ctx, cancel := context.WithTimeout(l.In.Life, l.Within)
		defer cancel()
		v, err := l.Read(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err = err; err == nil {
			l.value, l.at = v, l.tried
		}
		l.reading, l.took = nil, l.In.Now().Sub(l.tried)
		close(done)
	})
}
