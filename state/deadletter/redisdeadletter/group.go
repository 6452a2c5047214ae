package redisdeadletter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/deadletter"
)

// groupIDLen is the length of the id of a group.
const groupIDLen = 16

// groupID names the group of a pipeline, a kind and a common cause, in keys of one length.
func groupID(pipeline string, kind tidemill.Kind, cause string) string {
	name := append(wire.AppendString(nil, pipeline), byte(kind))
	sum := sha256.Sum256(append(name, cause...))
	return hex.EncodeToString(sum[:groupIDLen/2])
}

// groupOf is the group that a dead letter belongs to, as commit.lua takes it: id, kind and cause.
func groupOf(r *deadletter.Record) string {
	cause := deadletter.CommonCause(r.Cause)
	return groupID(r.Pipeline, r.Kind, cause) + string([]byte{byte(r.Kind)}) + cause
}

// Groups implements deadletter.Store. It reads the largest groups of each pipeline, and no dead letters.
func (s *Store) Groups(ctx context.Context, only func(string) bool) (all deadletter.Groups, err error) {
	pipelines, err := s.grouped(ctx, only)
	if err != nil {
		return all, fmt.Errorf("read the groups of dead letters: %w", err)
	}
	for _, name := range pipelines {
		if err := s.readGroups(ctx, name, &all); err != nil {
			return all, fmt.Errorf("read the groups of dead letters of %q: %w", name, err)
		}
	}
	all.Largest()
	return all, nil
}

// grouped are the pipelines that have had dead letters, of those that are meant; nil: of all. All that is
// in the stream by then is in its group.
func (s *Store) grouped(ctx context.Context, only func(string) bool) ([]string, error) {
	if err := s.adopt(ctx); err != nil {
		return nil, err
	}
	if err := s.regroup(ctx); err != nil {
		return nil, err
	}
	return s.having(ctx, only)
}

// having are the pipelines that have had dead letters, of those that are meant; nil: of all.
func (s *Store) having(ctx context.Context, only func(string) bool) ([]string, error) {
	names, err := s.client.Do(ctx, s.client.B().Smembers().Key(s.pipelines).Build()).AsStrSlice()
	if only != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !only(name) })
	}
	slices.Sort(names)
	return names, failed(err)
}

// readGroups adds the largest groups of a pipeline, and how many dead letters are in none of them.
func (s *Store) readGroups(ctx context.Context, pipeline string, all *deadletter.Groups) error {
	answer, err := groupsScript.Exec(ctx, s.client, append([]string{s.causes}, s.keysOf(pipeline)...), []string{strconv.Itoa(deadletter.MaxGroups)}).ToArray()
	if err != nil {
		return failed(err)
	}
	left, err := answer[0].AsInt64()
	if err != nil {
		return err
	}
	sizes, err := answer[1].AsStrSlice() // ids and sizes in turn
	if err != nil {
		return err
	}
	causes, err := answer[2].AsStrSlice()
	if err != nil {
		return err
	}
	for i, c := range causes {
		n, err := strconv.Atoi(sizes[2*i+1])
		if err != nil || c == "" {
			return fmt.Errorf("group %s of %s is damaged: remove %s, and the groups are made anew", sizes[2*i], s.causes, s.known)
		}
		left -= int64(n)
		all.Groups = append(all.Groups, deadletter.Group{Pipeline: pipeline, Kind: tidemill.Kind(c[0]), Cause: c[1:], Count: n})
	}
	all.Other += int(max(0, left))
	return nil
}

// Owners implements deadletter.Store.
func (s *Store) Owners(ctx context.Context, only func(string) bool) (all []deadletter.Owner, err error) {
	pipelines, err := s.grouped(ctx, only)
	if err != nil {
		return nil, fmt.Errorf("read the owners of dead letters: %w", err)
	}
	for _, name := range pipelines {
		most, err := s.client.Do(ctx, s.client.B().Zrevrange().Key(s.owners(name)).Start(0).Stop(deadletter.MaxOwners-1).Withscores().Build()).AsZScores()
		if err != nil {
			return nil, fmt.Errorf("read the owners of dead letters of %q: %w", name, failed(err))
		}
		for _, o := range most {
			all = append(all, deadletter.Owner{Pipeline: name, Tenant: o.Member, Count: int(o.Score)})
		}
	}
	return all, nil
}

// regroup puts those dead letters into their groups that a program without groups has put or changed,
// and takes those out that it has removed. Nearly always there are none: then it is one short read.
func (s *Store) regroup(ctx context.Context) error {
	missed, err := s.missed(ctx)
	if missed == 0 || err != nil {
		return err
	}
	for after := int64(0); ; {
		page, last, err := s.page(ctx, s.order, after, newest+1, findFields, false)
		if err != nil {
			return err
		}
		if last == 0 {
			break
		}
		if err := s.join(ctx, page); err != nil {
			return err
		}
		after = last
	}
	for cursor := uint64(0); ; {
		e, err := s.client.Do(ctx, s.client.B().Hscan().Key(s.group).Cursor(cursor).Count(findFields).Build()).AsScanEntry()
		if err != nil {
			return failed(err)
		}
		if err := s.leave(ctx, e.Elements); err != nil {
			return err
		}
		if cursor = e.Cursor; cursor == 0 {
			break
		}
	}
	return failed(regroupedScript.Exec(ctx, s.client, []string{s.deaths, s.known}, []string{strconv.FormatInt(missed, 10)}).Error())
}

// missed is how many changes were made by programs without groups.
func (s *Store) missed(ctx context.Context) (int64, error) {
	n, err := s.client.Do(ctx, s.client.B().Mget().Key(s.deaths, s.known).Build()).AsStrSlice()
	if err != nil {
		return 0, failed(err)
	}
	deaths, _ := strconv.ParseInt(n[0], 10, 64) // a missing one is 0
	known, _ := strconv.ParseInt(n[1], 10, 64)
	return deaths - known, nil
}

// join puts dead letters into their groups.
func (s *Store) join(ctx context.Context, page []stored) error {
	seqs := make([]int64, len(page))
	for i, r := range page {
		seqs[i] = r.Seq
	}
	letters, err := s.letters(ctx, seqs, true)
	if err != nil {
		return err
	}
	var c commit
	for _, seq := range seqs {
		if r, ok := letters[seq]; ok {
			c.changes = append(c.changes, change{kind: "join", r: r.Record, old: r.old, history: true})
		}
	}
	return c.regroup(ctx, s)
}

// leave takes those dead letters out of their groups that are gone: of each its number, and what group
// has of it.
func (s *Store) leave(ctx context.Context, grouped []string) error {
	var c commit
	for i := 0; i+1 < len(grouped); i += 2 {
		r := new(deadletter.Record)
		var err error
		r.Seq, err = strconv.ParseInt(grouped[i], 10, 64)
		of := grouped[i+1]
		length, owner, ok := strings.Cut(of[min(len(of), groupIDLen):], ":")
		n, wrong := strconv.Atoi(length)
		if err != nil || !ok || wrong != nil || n < 0 || n > len(owner) {
			return fmt.Errorf("%s has a field %q, which is none of a dead letter: remove it", s.group, grouped[i])
		}
		r.Pipeline = owner[:n]
		c.changes = append(c.changes, change{kind: "leave", r: r})
	}
	return c.regroup(ctx, s)
}

func (c *commit) regroup(ctx context.Context, s *Store) error {
	if len(c.changes) == 0 {
		return nil
	}
	_, err := c.run(ctx, s)
	return err
}

// ofCause are the ids of the groups that have the dead letters of a filter's cause, in a stream that was
// looked through.
func (s *Store) ofCause(ctx context.Context, f *deadletter.Filter) (ids []string, err error) {
	if err := s.regroup(ctx); err != nil {
		return nil, err
	}
	var pipelines []string
	if f.Pipeline == "" {
		if pipelines, err = s.having(ctx, f.Only); err != nil {
			return nil, err
		}
	} else if f.Has(f.Pipeline) {
		pipelines = []string{f.Pipeline}
	}
	kinds := f.Kinds
	if len(kinds) == 0 {
		kinds = append(tidemill.Kinds(), tidemill.NoKind)
	}
	var asked []rueidis.Completed
	var all []string
	for _, name := range pipelines {
		for _, kind := range kinds {
			id := groupID(name, kind, f.Cause)
			all = append(all, id)
			asked = append(asked, s.client.B().Zscore().Key(s.groups(name)).Member(id).Build())
		}
	}
	for i, answer := range s.client.DoMulti(ctx, asked...) {
		switch err := answer.Error(); {
		case rueidis.IsRedisNil(err):
		case err != nil:
			return nil, failed(err)
		default:
			ids = append(ids, all[i])
		}
	}
	return ids, nil
}

// regroupedScript says that as many changes were missed as were then, unless there were more since, or
// another instance was faster.
var regroupedScript = rueidis.NewLuaScript(`
local missed = tonumber(redis.call('GET', KEYS[1]) or '0') - tonumber(redis.call('GET', KEYS[2]) or '0')
if missed == tonumber(ARGV[1]) then redis.call('INCRBY', KEYS[2], ARGV[1]) end
return missed`)
