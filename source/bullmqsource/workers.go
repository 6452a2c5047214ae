package bullmqsource

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// The interval of counting workers, and the limit for one count.
const (
	countEvery = 10 * time.Second
	countFor   = 2 * time.Second
)

// How long a source that has its share waits: the longer nothing changes, the longer it
// waits.
const (
	fullFor  = 5 * time.Millisecond
	fullMost = 200 * time.Millisecond
)

// workers is what a source knows of the workers of its queue. It belongs to Receive's goroutine.
type workers struct {
	others  int // of BullMQ
	counted time.Time
	full    time.Duration // how long it waited last for room
}

// Names of workers' connections, by which Queue.getWorkers finds them.
func (s *Source) workerNames() (unnamed, named string) {
	unnamed = s.o.Prefix + ":" + base64.StdEncoding.EncodeToString([]byte(s.o.Queue))
	return unnamed, unnamed + ":w:"
}

// present makes Queue.getWorkers show this source, by a separate connection, and counts the other
// workers. Where a server refuses that, we do not see each other, and work goes on.
func (s *Source) present(ctx context.Context) {
	count := time.Since(s.workers.counted) >= countEvery
	here := s.here.Swap(nil)
	if here != nil && !count {
		s.here.Store(here)
		return
	}
	on, cancel := context.WithTimeout(ctx, countFor)
	defer cancel()
	name, named := s.workerNames()
	if s.named {
		name = named + s.o.Worker
	}
	fresh := here == nil
	if fresh {
		c, _ := s.client.Dedicate()
		here = &c
	}
	if err := (*here).Do(on, s.client.B().ClientSetname().ConnectionName(name).Build()).Error(); err != nil {
		(*here).Close()
		here = nil
	}
	if count {
		s.workers.counted = time.Now()
		s.workers.others = s.countOthers(on, here != nil)
	}
	if here == nil {
		return
	}
	s.here.Store(here)
	if fresh {
		context.AfterFunc(ctx, s.leave)
	} else if ctx.Err() != nil {
		s.leave()
	}
}

// leave ends the connection that shows us to others.
func (s *Source) leave() {
	if here := s.here.Swap(nil); here != nil {
		(*here).Close()
	}
}

// countOthers counts the workers of BullMQ.
func (s *Source) countOthers(ctx context.Context, here bool) int {
	unnamed, named := s.workerNames()
	n := 0
	for _, node := range s.client.Nodes() {
		list, err := node.Do(ctx, node.B().ClientList().Build()).ToString()
		if err != nil {
			continue // an absent replica, or a server that does not answer this
		}
		for line := range strings.Lines(list) {
			_, rest, _ := strings.Cut(line, " name=")
			name, _, _ := strings.Cut(rest, " ")
			if name == unnamed || strings.HasPrefix(name, named) && name != named+s.o.Worker {
				n++
			}
		}
	}
	if here && !s.named {
		n--
	}
	return max(n, 0)
}

// room is how many jobs may be taken now: all that are asked for where we are alone, else as
// many as a worker of BullMQ with our concurrency would take.
func (s *Source) room(ctx context.Context, most int) (int, error) {
	if s.o.Concurrency <= 0 || s.workers.others == 0 {
		return most, nil
	}
	ahead := 0
	if s.o.Ahead != nil {
		var err error
		if ahead, err = s.o.Ahead(ctx); err != nil {
			return 0, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, min(most, s.o.Concurrency-len(s.outs)-ahead)), nil
}

// names says whether workers of a version have names.
func names(version string) bool {
	_, number, _ := strings.Cut(version, ":")
	major, rest, _ := strings.Cut(number, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	return err == nil && (major == "5" && n >= 53 || major != "5" && major != "")
}
