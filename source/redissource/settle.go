package redissource

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	count int  // of the hand-out; 0: any
	other bool // another source handed it out
}

// settling is the memory of Settle.
type settling struct {
	ours []ending // by their marks
	acks []ending // by ID alone
	args []string
}

// Settle implements tidemill.Source. To resolve a lost answer, send the same again: what was
// applied is then Stale.
//
// A settlement without a mark is for the entry whose id is its ID, under any consumer, as
// long as it is pending in the group. Entries of the Intake have their own IDs, which do not
// locate them: for them it is Stale.
func (s *Source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	for i := range ends {
		if e := &ends[i]; e.End == tidemill.Done && e.Row() == (tidemill.Count{}) {
			return tidemill.Fail(tidemill.Internal, "settle message %q: an end needs a fate", e.ID)
		}
		ends[i].Outcome = tidemill.Unanswered
	}
	s.choose(ends)
	for _, list := range [...][]ending{s.settling.ours, s.settling.acks} {
		for part := range slices.Chunk(once(ends, list), chunk) {
			if err := s.settle(ctx, ends, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// choose finds entries that may still be handed out; the rest is Stale. An entry that is
// only left needs no server, unless the gate waits for its end.
func (s *Source) choose(ends []tidemill.Settlement) {
	ours, acks := s.settling.ours[:0], s.settling.acks[:0]
	s.mu.Lock()
	for i := range ends {
		e := &ends[i]
		if e.Mark == (tidemill.Mark{}) {
			if p, ok := canonical(e.ID); ok {
				acks = append(acks, ending{place: p, index: i})
			} else {
				e.Outcome = tidemill.Stale
			}
			continue
		}
		p := placeOf(e.Mark)
		switch o, ok := s.outs[p]; {
		case ok && epoch(s.turns, o.count) == e.Mark.Epoch:
			if e.End == tidemill.Left && !o.probe {
				e.Outcome = tidemill.Applied
				delete(s.outs, p)
				s.left.add(p)
				continue
			}
			ours = append(ours, ending{place: p, index: i, count: o.count})
		case ok && o.count > int(e.Mark.Epoch&(1<<turnBits-1)), p == place{}, e.Mark.Epoch>>turnBits != s.turns&(1<<(32-turnBits)-1):
			e.Outcome = tidemill.Stale
		default: // another source handed it out, or it ended
			ours = append(ours, ending{place: p, index: i, count: int(e.Mark.Epoch & (1<<turnBits - 1)), other: true})
		}
	}
	s.mu.Unlock()
	s.settling.ours, s.settling.acks = ours, acks
}

// once sorts endings by ids. A second settlement of an entry is Stale.
func once(ends []tidemill.Settlement, list []ending) []ending {
	byPlace := func(a, b ending) int { return a.compare(b.place) }
	if !slices.IsSortedFunc(list, byPlace) {
		slices.SortStableFunc(list, byPlace)
	}
	first := list[:0]
	for _, e := range list {
		if n := len(first); n > 0 && e.place == first[n-1].place {
			ends[e.index].Outcome = tidemill.Stale
			continue
		}
		first = append(first, e)
	}
	return first
}

// The characters of the fates in the script.
var letters = [...]byte{tidemill.None: 0, tidemill.Delivered: 'd', tidemill.Skipped: 's', tidemill.Dead: 'x'}

// op is the script's form of a settlement: a character, or ? and a text.
func op(e *tidemill.Settlement, end *ending) (letter byte, text string) {
	if e.End == tidemill.Done && e.Records == (tidemill.Count{}) && end.count <= 1 && !end.other {
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
		if e.CountTry {
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

// settle settles one chunk, all of it by marks or all of it by ID alone.
func (s *Source) settle(ctx context.Context, ends []tidemill.Settlement, part []ending) error {
	consumer := s.name()
	if ends[part[0].index].Mark == (tidemill.Mark{}) {
		consumer = "" // of any consumer
	}
	// The client may still write a command after its context has ended: give it memory that
	// is not used again.
	codes, ids := make([]byte, len(part)), make([]byte, 0, 20*len(part))
	args := append(s.settling.args[:0], s.o.Group, consumer, "")
	for i := range part {
		from := len(ids)
		ids = part[i].append(ids)
		args = append(args, rueidis.BinaryString(ids[from:len(ids):len(ids)]))
	}
	for i := range part {
		var text string
		if codes[i], text = op(&ends[part[i].index], &part[i]); text != "" {
			args = append(args, text)
		}
	}
	args[2] = rueidis.BinaryString(codes)
	took, err := settle.Exec(ctx, s.client, []string{s.keys.stream, s.keys.books, s.keys.due, s.keys.again, s.keys.probes}, args).ToString()
	clear(args)
	s.settling.args = args
	if err != nil {
		err = s.fail(err, "settle entries of")
		if lostGroup(err) { // our state is out of date: read it again before the next try
			_ = s.join(ctx)
		}
		return err
	}
	all := took == "1"
	if !all && len(took) != len(part) {
		return s.fail(errReply, "settle entries of")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range part {
		e := &part[i]
		end := &ends[e.index]
		if end.Outcome = tidemill.Stale; all || took[i] == '1' {
			end.Outcome = tidemill.Applied
		}
		s.settled(e, end)
	}
	return nil
}

// settled releases settled entries; mu is held.
func (s *Source) settled(e *ending, end *tidemill.Settlement) {
	if e.count == 0 { // by ID: a Stale one says nothing about our entries
		if end.Outcome == tidemill.Applied {
			delete(s.outs, e.place)
			delete(s.held, e.place)
			s.left.drop(e.place)
			if end.End == tidemill.Left {
				s.left.add(e.place)
			}
		}
		return
	}
	if end.Outcome == tidemill.Applied && end.End == tidemill.Done { // no source can get it again
		delete(s.outs, e.place)
		s.left.drop(e.place)
		return
	}
	o, ours := s.outs[e.place]
	if ours && o.count > e.count { // handed out again meanwhile
		return
	}
	delete(s.outs, e.place)
	s.left.drop(e.place)
	if ours && end.Outcome == tidemill.Applied && end.End == tidemill.Left {
		s.left.add(e.place)
	}
}
