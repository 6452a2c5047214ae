package redissource

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

const (
	chunk    = 1000 // entries that one script settles or keeps: a few milliseconds of the server
	maxCause = 200  // bytes of a cause that are kept beside an entry's tries
)

// ending is a settlement that goes to the server.
type ending struct {
	place
	index int
	count int
	other bool // another source handed it out
}

// Settle implements tidemill.Source. An answer that was lost is found out by sending the
// same again: what was applied is then Stale.
func (s *Source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	for i := range ends {
		if e := &ends[i]; e.End == tidemill.Done && e.Row() == (tidemill.Count{}) {
			return tidemill.Fail(tidemill.Internal, "settle message %q: an end needs a fate", e.ID)
		}
		ends[i].Took = tidemill.Unanswered
	}
	list, twice := s.mine(ends)
	for part := range slices.Chunk(list, chunk) {
		if err := s.settle(ctx, ends, part); err != nil {
			return err
		}
	}
	for _, i := range twice {
		ends[i].Took = tidemill.Stale
	}
	return nil
}

// mine chooses what may still be out, in order of ids; the rest is Stale, and so is, in the
// end, what is settled twice.
func (s *Source) mine(ends []tidemill.Settlement) (list []ending, twice []int) {
	list = make([]ending, 0, len(ends))
	s.mu.Lock()
	for i := range ends {
		e := &ends[i]
		p := placeOf(e.Mark)
		switch o, ok := s.outs[p]; {
		case ok && epoch(s.turns, o.count) == e.Mark.Epoch:
			list = append(list, ending{place: p, index: i, count: o.count})
		case ok && o.count > int(e.Mark.Epoch&(1<<turnBits-1)), p == place{}, e.Mark.Epoch>>turnBits != s.turns&(1<<(32-turnBits)-1):
			e.Took = tidemill.Stale
		default: // another source handed it out, or it ended
			list = append(list, ending{place: p, index: i, count: int(e.Mark.Epoch & (1<<turnBits - 1)), other: true})
		}
	}
	s.mu.Unlock()
	slices.SortStableFunc(list, func(a, b ending) int { return a.compare(b.place) })
	first := list[:0]
	for i, e := range list {
		if i > 0 && e.place == first[len(first)-1].place {
			twice = append(twice, e.index)
			continue
		}
		first = append(first, e)
	}
	return first, twice
}

// letters of the fates, as the script has them.
var letters = [...]byte{tidemill.None: 0, tidemill.Delivered: 'd', tidemill.Skipped: 's', tidemill.Dead: 'x'}

// op is what the script is told of a settlement: a letter, or ? and a text.
func op(e *tidemill.Settlement, end *ending) (letter byte, text string) {
	if e.End == tidemill.Done && e.Records == (tidemill.Count{}) && end.count == 1 && !end.other {
		return letters[e.Fate], ""
	}
	b := make([]byte, 0, 32)
	if end.other {
		b = append(b, '*')
	}
	b = strconv.AppendInt(b, int64(end.count), 10)
	switch {
	case e.End == tidemill.Left:
		b = append(b, 'l')
	case e.End == tidemill.Again:
		ms := int64(0)
		if e.After > 0 {
			ms = (e.After.Microseconds() + 999) / 1000
		}
		burn := 0
		if e.Burn {
			burn = 1
		}
		b = fmt.Appendf(b, "a%d,%d,%s", ms, burn, cause(e))
	case e.Records != tidemill.Count{}:
		b = fmt.Appendf(b, "r%d,%d,%d", e.Records.Delivered, e.Records.Skipped, e.Records.Dead)
	default:
		b = append(b, letters[e.Fate])
	}
	return '?', string(b)
}

// cause is the kind and the beginning of the text of a failure.
func cause(e *tidemill.Settlement) string {
	if e.Cause == "" && e.Kind == tidemill.NoKind {
		return ""
	}
	c := e.Kind.String() + ": " + e.Cause
	if len(c) > maxCause {
		c = strings.ToValidUTF8(c[:maxCause], "")
	}
	return c
}

// settle settles one chunk.
func (s *Source) settle(ctx context.Context, ends []tidemill.Settlement, part []ending) error {
	args := make([]string, 3+len(part), 3+2*len(part))
	args[0], args[1] = s.o.Group, s.name()
	codes, ids := make([]byte, len(part)), make([]byte, 0, 20*len(part))
	for i := range part {
		e := &part[i]
		from := len(ids)
		ids = e.append(ids)
		args[3+i] = rueidis.BinaryString(ids[from:len(ids):len(ids)])
		var text string
		if codes[i], text = op(&ends[e.index], e); text != "" {
			args = append(args, text)
		}
	}
	args[2] = string(codes)
	took, err := settle.Exec(ctx, s.client, []string{s.keys.stream, s.keys.books, s.keys.due, s.keys.again, s.keys.probes}, args).ToString()
	if err != nil {
		err = s.fail(err, "settle entries of")
		if lostGroup(err) { // what we know of it is out of date: find out before the next try
			_ = s.join(ctx)
		}
		return err
	}
	if took == "1" {
		took = strings.Repeat("1", len(part))
	}
	if len(took) != len(part) {
		return s.fail(errReply, "settle entries of")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range part {
		end := &ends[e.index]
		if end.Took = tidemill.Stale; took[i] == '1' {
			end.Took = tidemill.Applied
		}
		switch o := s.outs[e.place]; {
		case o.count > e.count: // handed out again meanwhile
		case end.Took == tidemill.Applied && end.End == tidemill.Left:
			s.outs[e.place] = out{count: o.count, left: time.Now().UnixNano()}
		default:
			delete(s.outs, e.place)
		}
	}
	return nil
}

// Keep implements tidemill.Keeper: it renews what is out, what is about to be, and the
// consumer's name.
func (s *Source) Keep(ctx context.Context) error {
	if err := s.join(ctx); err != nil {
		return err
	}
	now := time.Now().UnixNano()
	s.mu.Lock()
	name := s.consumer
	list := make([]ending, 0, len(s.outs)+len(s.held))
	for p, o := range s.outs {
		switch {
		case o.left == 0:
			list = append(list, ending{place: p, count: o.count})
		case now-o.left > int64(2*s.o.Lease): // somebody else has it by now
			delete(s.outs, p)
		}
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
	args := []string{s.o.Group, name, s.token, millis(s.o.Lease)}
	for i := range part {
		args = append(args, part[i].place.String(), strconv.Itoa(part[i].count))
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
