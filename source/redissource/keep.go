package redissource

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Keep implements tidemill.Keeper: it renews the entries that are handed out or about to
// be, and the consumer's name.
func (s *Source) Keep(ctx context.Context) error {
	if err := s.join(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	name := s.consumer
	s.left.turn(s.o.Lease)
	list := make([]ending, 0, len(s.outs)+len(s.held))
	for p, o := range s.outs {
		list = append(list, ending{place: p, count: o.count})
	}
	for p, h := range s.held {
		list = append(list, ending{place: p, count: h.count})
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b ending) int { return a.compare(b.place) })
	for from := 0; from == 0 || from < len(list); from += chunk {
		if err := s.keep(ctx, name, list[from:min(from+chunk, len(list))]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) keep(ctx context.Context, name string, part []ending) error {
	ids := make([]byte, 0, 20*len(part))
	args := append(make([]string, 0, 4+2*len(part)), s.o.Group, name, s.token, millis(s.o.Lease))
	for i := range part {
		from := len(ids)
		ids = part[i].append(ids)
		args = append(args, rueidis.BinaryString(ids[from:len(ids):len(ids)]), strconv.Itoa(part[i].count))
	}
	at := time.Now()
	kept, err := keep.Exec(ctx, s.client, []string{s.keys.stream, s.keys.probes, s.keys.consumer(name)}, args).ToString()
	if err != nil {
		return s.fail(err, "renew leases of")
	}
	if len(kept) != len(part) {
		return s.fail(errReply, "renew leases of")
	}
	s.mu.Lock()
	for i, e := range part {
		h, held := s.held[e.place]
		if held = held && h.count == e.count; kept[i] == '1' {
			if held {
				s.held[e.place] = hold{h.count, at}
			}
			continue
		}
		if o, ok := s.outs[e.place]; ok && o.count == e.count {
			delete(s.outs, e.place) // its settlement will be Stale
		}
		if held {
			delete(s.held, e.place)
		}
	}
	s.mu.Unlock()
	return nil
}
