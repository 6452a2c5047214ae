package figures

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reader is a store that takes its time.
type reader struct {
	reads int
	takes time.Duration
	err   error
}

func (r *reader) read(ctx context.Context) (int, error) {
	r.reads++
	n := r.reads
	select {
	case <-time.After(r.takes):
		return n, r.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func readings(t *testing.T) *Readings { return &Readings{Life: t.Context(), Now: time.Now} }

func latest(r *reader, in *Readings) *Latest[int] {
	return &Latest[int]{Read: r.read, Fresh: time.Second, Wait: 700 * time.Millisecond, Within: 3 * time.Second, In: in}
}

func TestManyAskAndOneReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, in := &reader{takes: 100 * time.Millisecond}, readings(t)
		l := latest(r, in)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if v, at, err := l.Get(t.Context()); v != 1 || at.IsZero() || err != nil {
					t.Errorf("%d of %v, %v", v, at, err)
				}
			})
		}
		all.Wait()
		if v, _, _ := l.Get(t.Context()); v != 1 || r.reads != 1 {
			t.Errorf("a fresh value was read again: %d, %d times", v, r.reads)
		}
		time.Sleep(time.Second)
		if v, at, _ := l.Get(t.Context()); v != 2 || time.Since(at) > 200*time.Millisecond {
			t.Errorf("a second later: %d of %v", v, at)
		}
		in.Begun.Wait()
	})
}

func TestWhatTakesLongIsReadLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, in := &reader{takes: 100 * time.Millisecond}, readings(t)
		l := latest(r, in)
		l.Most = time.Minute
		read := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			if _, _, err := l.Get(t.Context()); err != nil || r.reads != want {
				t.Errorf("it was read %d times, want %d; %v", r.reads, want, err)
			}
		}
		read(0, 1)
		read(4800*time.Millisecond, 1) // 4.9 s after the first began
		r.takes = 600 * time.Millisecond
		read(100*time.Millisecond, 2)
		read(29*time.Second, 2)
		read(2*time.Second, 3)
		in.Begun.Wait()
	})
}

func TestNobodyWaitsLongForAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		r, in := &reader{}, &Readings{Life: life, Now: time.Now}
		l := latest(r, in)
		known, _, _ := l.Get(t.Context())
		r.takes = time.Hour
		time.Sleep(2 * time.Second)
		began := time.Now()
		v, at, err := l.Get(t.Context())
		if v != known || time.Since(at) < 2*time.Second || err == nil || time.Since(began) != 700*time.Millisecond {
			t.Errorf("%d of %v after %v, %v", v, at, time.Since(began), err)
		}
		began = time.Now()
		if _, _, err := l.Get(t.Context()); err == nil || time.Since(began) != 0 {
			t.Errorf("the next one waited %v, %v", time.Since(began), err)
		}
		time.Sleep(3 * time.Second) // the reading is given up
		synctest.Wait()
		r.takes, r.err = 0, errors.New("it is away")
		if v, _, err := l.Get(t.Context()); v != known || err == nil || err.Error() != "it is away" {
			t.Errorf("%d, %v", v, err)
		}
		r.takes = time.Hour
		time.Sleep(2 * time.Second)
		gone, leave := context.WithCancel(t.Context())
		leave()
		began = time.Now()
		if _, _, _ = l.Get(gone); time.Since(began) != 0 {
			t.Errorf("who is gone waited %v", time.Since(began))
		}
		end()
		in.Begun.Wait() // for the reading that the end has ended
	})
}

func TestAGoodValueIsAnsweredWhileANewerOneIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, in := &reader{takes: 100 * time.Millisecond}, readings(t)
		l := latest(r, in)
		l.Good = 5 * time.Second
		get := func(want int, within time.Duration) {
			t.Helper()
			began := time.Now()
			if v, _, err := l.Get(t.Context()); v != want || err != nil || time.Since(began) > within {
				t.Errorf("%d, %v after %v; want %d within %v", v, err, time.Since(began), want, within)
			}
		}
		get(1, 100*time.Millisecond)
		time.Sleep(time.Second)
		get(1, 25*time.Millisecond)
		get(1, 0) // others have waited already
		time.Sleep(100 * time.Millisecond)
		get(2, 0)
		time.Sleep(6 * time.Second) // it is too old
		get(3, 100*time.Millisecond)
		r.takes = 10 * time.Millisecond
		time.Sleep(time.Second)
		get(4, 10*time.Millisecond) // a newer one that comes soon is awaited
		in.Begun.Wait()
	})
}

func TestWhoAsksAfterAChangeSeesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, in := &reader{takes: 100 * time.Millisecond}, readings(t)
		l := latest(r, in)
		l.Good = 5 * time.Second
		l.Changed() // nothing was read
		get := func(want int) {
			t.Helper()
			if v, _, err := l.Get(t.Context()); v != want || err != nil {
				t.Errorf("%d, %v; want %d", v, err, want)
			}
		}
		get(1)
		l.Changed()
		get(2)
		get(2)
		time.Sleep(time.Second)
		get(2) // it is good, and the third is being read
		l.Changed()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { get(4) }) // the third began before the change
		}
		all.Wait()
		if r.reads != 4 {
			t.Errorf("it was read %d times, want 4", r.reads)
		}
		in.Begun.Wait()
	})
}

func TestKeyedValuesAreReadOncePerKey(t *testing.T) {
	reads := map[string]int{}
	in := readings(t)
	k := Keyed[string, int]{Kept: 2, Make: func(key string) *Latest[int] {
		return &Latest[int]{Read: func(context.Context) (int, error) { reads[key]++; return len(key), nil }, Fresh: time.Hour, Wait: time.Minute, Within: time.Minute, In: in}
	}}
	for _, step := range []struct {
		key   string
		reads int
	}{{"a", 1}, {"bb", 1}, {"a", 1}, {"bb", 1}, {"ccc", 1}, {"a", 2}} { // the third forgets the others
		if n, _, err := k.Of(step.key).Get(t.Context()); err != nil || n != len(step.key) || reads[step.key] != step.reads {
			t.Errorf("%s: %d, %v, read %d times, want %d", step.key, n, err, reads[step.key], step.reads)
		}
	}
	k.Forget()
	if _, _, err := k.Of("a").Get(t.Context()); err != nil || reads["a"] != 3 {
		t.Errorf("what was forgotten was read %d times, %v", reads["a"], err)
	}
	in.Begun.Wait()
}
