package redisdeadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

const (
	findFields = 1000 // of one script: a few milliseconds of the server at most
	pageRows   = 1000 // dead letters searched at once
	wholeRows  = 32   // dead letters listed at once, with their messages
)

// list is the dead letters of one id field.
type list struct {
	raw     string // as it is stored
	letters []stored
}

// of returns the dead letter of a tenant, if the list has it.
func (l *list) of(tenant string) (stored, bool) {
	for _, r := range l.letters {
		if r.Tenant == tenant {
			return r, true
		}
	}
	return stored{}, false
}

// find reads the dead letters of id fields, each field once, without their messages.
func (s *Store) find(ctx context.Context, fields []string) (map[string]*list, error) {
	fields = slices.Clone(fields)
	slices.Sort(fields)
	fields = slices.Compact(fields)
	found := make(map[string]*list, len(fields))
	for part := range slices.Chunk(fields, findFields) {
		answers, err := findScript.Exec(ctx, s.client, []string{s.ids, s.meta, s.history}, part).ToArray()
		if err != nil {
			return nil, failed(err)
		}
		if len(answers) != len(part) {
			return nil, fmt.Errorf("the script answered %d of %d names", len(answers), len(part))
		}
		for i, a := range answers {
			parts, err := a.AsStrSlice()
			if err != nil {
				return nil, err
			}
			l := &list{raw: parts[0]}
			for k := 1; k+2 < len(parts); k += 3 {
				if parts[k+1] == "" {
					continue
				}
				r, err := s.decode(parts[k], parts[k+1])
				if err != nil {
					return nil, err
				}
				r.remember(parts[k+2])
				l.letters = append(l.letters, r)
			}
			found[part[i]] = l
		}
	}
	return found, nil
}

// decode reads a companion.
func (s *Store) decode(seq, meta string) (stored, error) {
	_, body, ok := strings.Cut(meta, "\n")
	r, err := decodeMeta([]byte(body))
	if errors.Is(err, errNewer) {
		return stored{}, fmt.Errorf("field %s of %s: %w", seq, s.meta, err)
	}
	if !ok || err != nil {
		return stored{}, fmt.Errorf("field %s of %s is damaged: remove it and set %s back to 0-0, and its letter is found again in the stream", seq, s.meta, s.mark)
	}
	if r.Seq, err = strconv.ParseInt(seq, 10, 64); err != nil {
		return stored{}, fmt.Errorf("%s has a field %q, which is no number", s.meta, seq)
	}
	return stored{r, meta}, nil
}

// entryOf is the id of the dead letter's entry.
func (r stored) entryOf() string {
	id, _, _ := strings.Cut(r.old, "\n")
	return id
}

// remember reads the dead letter's failures.
func (r stored) remember(history string) {
	var err error
	if r.History, err = rules.DecodeHistory([]byte(history)); err != nil {
		r.History = []deadletter.Failure{{At: r.Last, Kind: tidemill.Internal, Cause: "the stored history was damaged and is lost"}}
	}
	if n := len(r.History); n > 0 {
		r.Cause = r.History[n-1].Cause
	}
}

// page reads dead letters of a set ordered by seq, without messages and failures: the first ones
// after a number and before another, or back the last ones. It says which one it read last.
func (s *Store) page(ctx context.Context, set string, after, before int64, most int, back bool) ([]stored, int64, error) {
	command, from, to := "ZRANGEBYSCORE", after, before
	if back {
		command, from, to = "ZREVRANGEBYSCORE", before, after
	}
	answer, err := pageScript.Exec(ctx, s.client, []string{set, s.meta}, []string{command, strconv.FormatInt(from, 10), strconv.FormatInt(to, 10), strconv.Itoa(most)}).ToArray()
	if err != nil {
		return nil, 0, failed(err)
	}
	found, last, err := s.pairs(answer[0], answer[1])
	return found, last, err
}

// pageOf is page for the dead letters of groups, by their ids.
func (s *Store) pageOf(ctx context.Context, groups []string, after, before int64, most int, back bool) ([]stored, int64, error) {
	args := []string{digits(after), digits(before), strconv.Itoa(most), ""}
	if back {
		args[3] = "back"
	}
	answer, err := diedScript.Exec(ctx, s.client, []string{s.died, s.meta}, append(args, groups...)).ToArray()
	if err != nil {
		return nil, 0, failed(err)
	}
	found, last, err := s.pairs(answer[0], answer[1])
	return found, last, err
}

// digits writes a number so that its order is that of its bytes.
func digits(n int64) string { return fmt.Sprintf("%016d", n) }

// pairs reads seqs and their companions.
func (s *Store) pairs(seqs, metas rueidis.RedisMessage) (found []stored, last int64, err error) {
	names, err := seqs.AsStrSlice()
	if err != nil {
		return nil, 0, err
	}
	values, err := metas.ToArray()
	if err != nil {
		return nil, 0, err
	}
	for i, name := range names {
		if last, err = strconv.ParseInt(name, 10, 64); err != nil {
			return nil, 0, err
		}
		if values[i].IsNil() {
			continue
		}
		meta, err := values[i].ToString()
		if err != nil {
			return nil, 0, err
		}
		r, err := s.decode(name, meta)
		if err != nil {
			return nil, 0, err
		}
		found = append(found, r)
	}
	return found, last, nil
}

// whole reads dead letters with their messages and failures, atOnce of them at a time; it
// leaves out those that are gone.
func (s *Store) whole(ctx context.Context, seqs []int64, atOnce int) ([]stored, error) {
	var found []stored
	for part := range slices.Chunk(seqs, atOnce) {
		args := make([]string, len(part))
		for i, seq := range part {
			args[i] = strconv.FormatInt(seq, 10)
		}
		answers, err := wholeScript.Exec(ctx, s.client, []string{s.stream, s.meta, s.history}, args).ToArray()
		if err != nil {
			return nil, failed(err)
		}
		for i, a := range answers {
			parts, err := a.ToArray()
			if err != nil {
				return nil, err
			}
			if len(parts) < 3 {
				continue
			}
			meta, err := parts[0].ToString()
			if err != nil {
				return nil, err
			}
			history, err := parts[1].ToString()
			if err != nil {
				return nil, err
			}
			fields, err := parts[2].AsStrSlice()
			if err != nil {
				return nil, err
			}
			r, err := s.decode(args[i], meta)
			if err != nil {
				return nil, err
			}
			r.remember(history)
			e := entry{id: r.entryOf(), fields: pairsOf(fields)}
			e.message(r.Record)
			found = append(found, r)
		}
	}
	return found, nil
}

func pairsOf(fields []string) map[string]string {
	of := make(map[string]string, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		of[fields[i]] = fields[i+1]
	}
	return of
}

// letters reads dead letters by Seq, without their messages.
func (s *Store) letters(ctx context.Context, seqs []int64, history bool) (map[int64]stored, error) {
	found := make(map[int64]stored, len(seqs))
	for part := range slices.Chunk(seqs, findFields) {
		names := make([]string, len(part))
		for i, seq := range part {
			names[i] = strconv.FormatInt(seq, 10)
		}
		cmds := rueidis.Commands{s.client.B().Hmget().Key(s.meta).Field(names...).Build()}
		if history {
			cmds = append(cmds, s.client.B().Hmget().Key(s.history).Field(names...).Build())
		}
		answers := s.client.DoMulti(ctx, cmds...)
		metas, err := answers[0].ToArray()
		if err != nil {
			return nil, failed(err)
		}
		for i, m := range metas {
			if m.IsNil() {
				continue
			}
			meta, err := m.ToString()
			if err != nil {
				return nil, err
			}
			r, err := s.decode(names[i], meta)
			if err != nil {
				return nil, err
			}
			found[r.Seq] = r
		}
		if !history {
			continue
		}
		// A history newer than the companion belongs to a dead letter that has changed: a
		// change based on it does not fit, and is not written.
		histories, err := answers[1].ToArray()
		if err != nil {
			return nil, failed(err)
		}
		for i, h := range histories {
			if r, ok := found[part[i]]; ok {
				text, _ := h.ToString() // a missing one counts as damaged
				r.remember(text)
			}
		}
	}
	return found, nil
}
