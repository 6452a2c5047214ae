package redissource

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
)

// What all groups have finished is trimmed so many entries at a time, and so often while there is more:
// 50,000 small entries take Redis four milliseconds, in which it does nothing else.
const (
	trimMost  = 50_000
	trimEvery = 100 * time.Millisecond
)

// maxNames is how many processes may want the same name.
const maxNames = 1000

// lostGroup says that the group, or the stream, does not exist any more.
func lostGroup(err error) bool {
	e, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && (strings.HasPrefix(e.Error(), "NOGROUP") || strings.HasPrefix(e.Error(), "UNBLOCKED") || strings.Contains(e.Error(), "no such key"))
}

// fail gives an error its kind and the operation. The next call makes a missing group anew.
func (s *Source) fail(err error, doing string) error {
	if err == nil {
		return nil
	}
	s.mu.Lock()
	s.joined = false
	s.mu.Unlock()
	return redisconn.Error(err, "%s group %q of stream %q", doing, s.o.Group, s.o.Stream)
}

// join makes sure that we have a name and the group exists, and tends the group from time
// to time.
func (s *Source) join(ctx context.Context) error {
	s.mu.Lock()
	every := min(s.o.Lease/6, 10*time.Second)
	if s.untrimmed {
		every = min(every, trimEvery)
	}
	fine := s.joined && time.Since(s.tended) < every
	s.mu.Unlock()
	if fine {
		return nil
	}
	_, err := s.tend(ctx, true)
	return err
}

// tend tends the group, as a consumer or just to read its books.
func (s *Source) tend(ctx context.Context, register bool) (tidemill.Books, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return tidemill.Books{}, context.Cause(ctx)
	}
	if !register {
		a, err := s.askToTend(ctx, "", "")
		if err != nil {
			return tidemill.Books{}, err
		}
		return s.tendedTo(a), nil
	}
	s.mu.Lock()
	name, process := s.consumer, ""
	s.mu.Unlock()
	first := name == ""
	if first {
		name, process = s.o.Consumer, s.o.Process
	}
	for n := 2; ; n++ {
		a, err := s.askToTend(ctx, name, process)
		if err != nil {
			return tidemill.Books{}, err
		}
		if a != nil {
			s.named(name)
			return s.tendedTo(a), nil
		}
		if n > maxNames {
			return tidemill.Books{}, fmt.Errorf("consumer %q of group %q: %d processes go by this name already", s.o.Consumer, s.o.Group, maxNames)
		}
		name, process = s.o.Consumer+"-"+strconv.Itoa(n), ""
		if first {
			process = s.o.Process
		}
	}
}

// askToTend runs the script; a nil answer says that the name is another's.
func (s *Source) askToTend(ctx context.Context, name, process string) ([]int64, error) {
	drains := ""
	if s.o.Drains {
		drains = "1"
	}
	reply, err := tend.Exec(ctx, s.client, []string{s.keys.stream, s.keys.books, s.keys.due, s.keys.again, s.keys.consumer(name)},
		[]string{s.o.Group, name, s.token, process, millis(s.o.Lease), drains, strconv.Itoa(s.trimMost)}).ToArray()
	if err != nil {
		return nil, s.fail(err, "look after")
	}
	if word, err := reply[0].ToString(); err != nil || word == "taken" {
		return nil, err
	}
	a := make([]int64, len(reply))
	for i := 1; i < len(reply); i++ {
		if a[i], err = reply[i].AsInt64(); err != nil {
			return nil, s.fail(err, "look after")
		}
	}
	return a, nil
}

// named notes the name that we use.
func (s *Source) named(name string) {
	s.mu.Lock()
	was := s.consumer
	s.consumer = name
	if was != name || !s.joined {
		s.missed = true // more may be pending under the name than we know
	}
	s.joined, s.tended = true, time.Now()
	s.mu.Unlock()
	if was != name && (was != "" || name != s.o.Consumer) {
		s.o.Report(Report{What: Renamed, Text: fmt.Sprintf("consumer %q of group %q is another process: this one goes by %q", s.o.Consumer, s.o.Group, name)})
	}
}

// tendedTo notes what was found, and reports it.
func (s *Source) tendedTo(a []int64) tidemill.Books {
	fresh, back, lost, added := a[1] == 1, uint64(a[2]), uint64(a[3]), uint64(a[4])
	s.mu.Lock()
	known, anew := s.added, s.made >= 0 && a[12] == 1 // the books are gone too, with all that was known
	s.added = added
	s.trimmed, s.untrimmed = s.trimmed+uint64(a[13]), a[14] == 1
	if made := a[11]; fresh || made != s.made {
		if s.made >= 0 {
			s.turns++
		}
		s.made = made
		clear(s.outs)
		s.left.empty()
		clear(s.held) // and with it what reader has of them
	}
	s.mu.Unlock()
	switch {
	case anew:
		back = known
	case known > added:
		back = max(back, known-added)
	}
	if back > 0 || anew {
		s.o.Report(Report{What: WentBack, Count: back, Text: fmt.Sprintf("stream %q went back by %d entries: it was flushed, deleted, restored or failed over", s.o.Stream, back)})
	}
	if fresh && (known > 0 || back > 0 || anew) {
		s.o.Report(Report{What: NewGroup, Text: fmt.Sprintf("group %q of stream %q was gone and is made anew", s.o.Group, s.o.Stream)})
	}
	if lost > 0 {
		s.o.Report(Report{What: Lost, Count: lost, Text: fmt.Sprintf("%d entries of stream %q were deleted before group %q had read them", lost, s.o.Stream, s.o.Group)})
	}
	return tidemill.Books{Accepted: uint64(a[5]), Settled: tidemill.Count{Delivered: uint64(a[6]), Skipped: uint64(a[7]), Dead: uint64(a[8])},
		Lost: uint64(a[9]), Pending: uint64(a[10])}
}

// Books implements tidemill.Bookkeeper.
func (s *Source) Books(ctx context.Context) (tidemill.Books, error) { return s.tend(ctx, false) }

// lost reports pending entries without a body.
func (s *Source) lost(ids []string) {
	if len(ids) == 0 {
		return
	}
	s.o.Report(Report{What: Lost, Count: uint64(len(ids)), IDs: ids[:min(len(ids), 100)],
		Text: fmt.Sprintf("%d entries of stream %q were deleted after they were handed out and before they were settled", len(ids), s.o.Stream)})
}

func millis(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }
