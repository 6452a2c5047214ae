package gdelt

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
)

// pass is one reading of a file from its beginning.
type pass struct {
	*File
	held bool // its row was not handed out yet
}

// Receive implements tidemill.Source.
func (s *Source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	for {
		if err := ctx.Err(); err != nil || len(into) == 0 {
			return 0, err
		}
		if n := s.fill(ctx, into); n > 0 {
			return n, nil
		}
		now := s.o.Now()
		if s.next.IsZero() || !now.Before(s.next) || s.drained() {
			s.next = now.Add(s.o.Every)
			if err := s.Look(ctx); err != nil {
				return 0, err
			}
			s.drop(ctx)
			continue
		}
		if err := s.wait(ctx, now); err != nil {
			return 0, err
		}
	}
}

// drained reports that the backlog is half empty and more files wait.
func (s *Source) drained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.more && len(s.open) <= s.o.Backlog/2
}

// wait waits for something to hand out, or for the next look.
func (s *Source) wait(ctx context.Context, now time.Time) error {
	until := s.next
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(until) {
			until = t
		}
	}
	s.mu.Lock()
	for _, f := range s.open {
		if f.trouble != "" {
			earlier(f.retry)
		} else if f.left > 0 {
			for _, h := range f.out {
				earlier(h.due)
			}
		}
	}
	s.mu.Unlock()
	timer := time.NewTimer(max(until.Sub(now), time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.wake:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// fill hands out rows of the open files, oldest first.
func (s *Source) fill(ctx context.Context, into []*tidemill.Message) (n int) {
	s.drop(ctx)
	s.mu.Lock()
	open := slices.Clone(s.open)
	s.mu.Unlock()
	for _, f := range open {
		if n == len(into) || ctx.Err() != nil {
			break
		}
		if now := s.o.Now(); now.Before(f.retry) {
			continue
		}
		got, err := s.read(ctx, f, into[n:])
		n += got
		s.note(ctx, f, err)
	}
	return n
}

// note notes why a file cannot be read, or that it can. Others are read meanwhile.
func (s *Source) note(ctx context.Context, f *file, err error) {
	why := ""
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		why = err.Error()
		f.retry = s.o.Now().Add(s.o.Every)
		s.forgetPass(f.Number)
	}
	s.mu.Lock()
	changed, pending := f.trouble != why, f.Pending()
	f.trouble = why
	s.mu.Unlock()
	switch {
	case changed && err != nil:
		// Logged when an accepted file is gone or was changed before all its rows ended; its last rows
		// wait. Once for each reason.
		// To do: put the file back, or give it up (`tidemill window give-up`).
		s.o.Log.ErrorContext(ctx, "a file of which rows have not ended cannot be read", "file", f.Name, "pending", pending, "error", err)
	case changed:
		// Logged when a file that could not be read can be.
		s.o.Log.InfoContext(ctx, "a file can be read again", "file", f.Name)
	}
}

// read hands out rows of one file.
func (s *Source) read(ctx context.Context, f *file, into []*tidemill.Message) (n int, err error) {
	p := s.passes[f.Number]
	now := s.o.Now()
	if s.due(f, p, now) {
		s.forgetPass(f.Number)
		p, f.read = nil, false
	}
	if f.read {
		return 0, nil
	}
	if p == nil {
		if p, err = s.begin(ctx, f); err != nil {
			return 0, err
		}
		s.passes[f.Number] = p
	}
	for n < len(into) {
		if !p.held {
			err := p.Next()
			if errors.Is(err, io.EOF) && p.Rows() == f.Rows {
				s.forgetPass(f.Number)
				f.read = true
				return n, nil
			}
			if err == nil && p.Rows() > f.Rows || errors.Is(err, io.EOF) {
				err = errOther
			}
			if err != nil {
				return n, err
			}
		}
		h, free, ahead := s.take(f, p, now)
		if p.held = ahead; ahead {
			return n, nil
		}
		if free {
			s.message(into[n], f, p, h)
			n++
		}
	}
	return n, nil
}

// errOther says that a file is not the one that was accepted.
var errOther = errors.New("its content is not what was accepted: it was changed since")

// due reports whether rows behind the pass were left, and have to be handed out again.
func (s *Source) due(f *file, p *pass, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.left == 0 {
		return false
	}
	for row, h := range f.out {
		if !h.due.IsZero() && !now.Before(h.due) && (f.read || p != nil && row < p.Rows()) {
			return true
		}
	}
	return false
}

// take hands out the row of the pass, if it is free. ahead: it is too far ahead of one that has
// not ended.
func (s *Source) take(f *file, p *pass, now time.Time) (h hand, free, ahead bool) {
	row := p.Number()
	s.mu.Lock()
	defer s.mu.Unlock()
	h, out := f.out[row]
	switch {
	case f.Ended.Has(row), out && (h.due.IsZero() || now.Before(h.due)):
		return h, false, false
	case row-f.Ended.First() >= s.o.MaxAhead:
		return h, false, true
	case out:
		f.left--
	case f.begun:
		h.handed = 1 // it may have been handed out before
	}
	s.epoch++
	h.epoch, h.handed, h.line, h.due = s.epoch, h.handed+1, p.Line(), time.Time{}
	f.out[row] = h
	return h, true, false
}

// message makes the row a message.
func (s *Source) message(m *tidemill.Message, f *file, p *pass, h hand) {
	*m = tidemill.Message{
		ID: rowID(f.Name, h.line), Type: f.name.Kind.String(), To: f.Name,
		Key: strconv.AppendInt(m.Key[:0], p.ID(), 10), Payload: p.AppendJSON(m.Payload[:0]),
		Header: append(m.Header[:0], tidemill.Field{Name: s.header, Value: f.batch}),
		Time:   f.time, Handed: h.handed,
		Mark: tidemill.Mark{Epoch: h.epoch, Hi: f.Number, Lo: p.Number()},
	}
}

// rowID names a row by its file and line.
func rowID(name string, line uint64) string { return name + ":" + strconv.FormatUint(line, 10) }

// begin opens a file for a pass, and checks that it is the one that was accepted.
func (s *Source) begin(ctx context.Context, f *file) (*pass, error) {
	path, err := s.place.fetch(ctx, entry{name: f.Name, from: f.From, size: -1})
	if err != nil {
		return nil, err
	}
	opened, err := openBy(ours, path, f.name, s.o.Limits)
	if err != nil {
		return nil, err
	}
	if opened.Size == f.Size && opened.Mod.Equal(f.Mod) {
		return &pass{File: opened}, nil
	}
	// It may have been copied, or fetched again.
	found, err := checkBy(ours, path, f.name, s.o.Limits)
	if err == nil && (found.Sum != f.Sum || found.Rows != f.Rows) {
		err = errOther
	}
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	s.mu.Lock()
	f.Size, f.Mod = found.Size, found.Mod
	s.mu.Unlock()
	return &pass{File: opened}, nil
}

func (s *Source) forgetPass(number uint64) {
	if p := s.passes[number]; p != nil {
		_ = p.Close()
		delete(s.passes, number)
	}
}

// drop closes files that are done, and removes those that are not to stay.
func (s *Source) drop(ctx context.Context) {
	s.mu.Lock()
	finished := s.finished
	s.finished = nil
	var gone []uint64
	for number := range s.passes {
		if !slices.ContainsFunc(s.open, func(f *file) bool { return f.Number == number }) {
			gone = append(gone, number)
		}
	}
	s.mu.Unlock()
	for _, number := range gone {
		s.forgetPass(number)
	}
	if s.place.keeps() && !s.o.Remove {
		return
	}
	for i := range finished {
		f := &finished[i]
		if !s.unchanged(f.Name, f, nil) {
			continue // it is another file already, and has to be read
		}
		if err := s.place.remove(f.Name); err != nil {
			s.stays(ctx, f.Name, err)
		}
	}
}
