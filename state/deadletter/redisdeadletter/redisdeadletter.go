// Package redisdeadletter keeps dead letters on a Redis stream that other programs read too:
// for analytics on Redis, where several instances share them.
//
// The stream (events:dlq) has one entry for each dead letter. Its field data is what readers
// of the stream expect, the JSON of the finished event row; the fields beside it are the
// whole dead letter as it died, its payload byte for byte, with a checksum. State, leases
// and history change, and cannot be in the stream, which is append-only. They are in
// companions on the stream's slot:
//
//	{events:dlq}:meta      seq → the dead letter without its message
//	{events:dlq}:history   seq → its failures
//	{events:dlq}:ids       pipeline and message ID → seqs
//	{events:dlq}:order     all seqs; :held:<p>, :ready:<p>, :later:<p> those of a pipeline by
//	                       state: held, to be handed out, leased or delayed (by time)
//	{events:dlq}:books:<p> put, replayed, skipped, lost
//	{events:dlq}:wakes:<p> a stream of one entry: sources block on it
//	{events:dlq}:groups:<p> the ids of groups, by their sizes; :owners:<p> owners by theirs
//	{events:dlq}:causes    id of a group → kind and cause
//	{events:dlq}:group     seq → id of its group, pipeline and owner
//	{events:dlq}:died      id of a group and seq, in this order
//	{events:dlq}:pipelines those that have had dead letters
//	{events:dlq}:deaths    how often one came, died again or went
//	{events:dlq}:known     how often, by programs that keep groups
//	{events:dlq}:mark      up to where the stream is known
//
// A dead letter that dies again, or is edited, gets a new entry, and its old one is deleted
// atomically. Every change is one script that is told what was read, and changes nothing
// where that is no longer current. The rules are those of package deadletter, and nothing
// holds a lock.
//
// Entries that other programs wrote (only data) are dead letters too: they are found when the
// store is opened and at every call, and belong to Options.Pipeline; so are entries whose
// companions were lost. An entry that another program removed leaves a damaged dead letter:
// it is shown and never replayed.
package redisdeadletter

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/serverclock"
	"github.com/tidemill/tidemill/state/deadletter"
)

// Options tune a store; the zero value is ready to use.
type Options struct {
	deadletter.Options        // a nil Now is the server's clock, one for all instances
	Stream             string // empty means events:dlq
	Pipeline           string // of entries that other programs wrote; empty means analytics
}

// Store keeps dead letters in Redis. Any number of instances may share a stream. Their own
// clocks need not agree.
type Store struct {
	client rueidis.Client
	o      Options
	prefix string // of companions

	stream, seq, mark, ids, meta, history, order, deaths string // keys
	known, group, died, causes, pipelines                string // of groups
}

var _ deadletter.Store = (*Store)(nil)

// New opens the dead letters of a stream, and finds entries that others wrote to it.
func New(ctx context.Context, client rueidis.Client, o Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("dead letters in Redis need a connection")
	}
	o.Stream, o.Pipeline = cmp.Or(o.Stream, "events:dlq"), cmp.Or(o.Pipeline, "analytics")
	if o.Now == nil {
		clock, err := serverclock.Redis(context.WithoutCancel(ctx), client, o.Stream)
		if err != nil {
			return nil, fmt.Errorf("open the dead letters of stream %q: %w", o.Stream, err)
		}
		o.Now = clock.Now
	}
	var err error
	if o.Options, err = o.Options.WithDefaults(); err != nil {
		return nil, err
	}
	s := &Store{client: client, o: o}
	s.prefix = beside(s.o.Stream)
	s.stream = s.o.Stream
	s.seq, s.mark, s.ids, s.meta = s.prefix+"seq", s.prefix+"mark", s.prefix+"ids", s.prefix+"meta"
	s.history, s.order, s.deaths = s.prefix+"history", s.prefix+"order", s.prefix+"deaths"
	s.known, s.group, s.died, s.causes, s.pipelines = s.prefix+"known", s.prefix+"group", s.prefix+"died", s.prefix+"causes", s.prefix+"pipelines"
	if err := s.adopt(ctx); err != nil {
		return nil, fmt.Errorf("open the dead letters of stream %q: %w", s.stream, err)
	}
	return s, nil
}

// beside is the prefix of keys on the same slot as key.
func beside(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if shut := strings.IndexByte(key[open+1:], '}'); shut > 0 {
			return key + ":" // it has its own hash tag
		}
	}
	return "{" + key + "}:"
}

// The keys of a pipeline, in the order of commit.lua.
func (s *Store) keysOf(pipeline string) []string {
	return []string{s.held(pipeline), s.ready(pipeline), s.later(pipeline), s.books(pipeline), s.wakes(pipeline), s.groups(pipeline), s.owners(pipeline)}
}

func (s *Store) held(pipeline string) string  { return s.prefix + "held:" + pipeline }
func (s *Store) ready(pipeline string) string { return s.prefix + "ready:" + pipeline }
func (s *Store) later(pipeline string) string { return s.prefix + "later:" + pipeline }
func (s *Store) books(pipeline string) string { return s.prefix + "books:" + pipeline }
func (s *Store) wakes(pipeline string) string { return s.prefix + "wakes:" + pipeline }

func (s *Store) groups(pipeline string) string { return s.prefix + "groups:" + pipeline }

func (s *Store) owners(pipeline string) string { return s.prefix + "owners:" + pipeline }

// idField is the field of a dead letter by its pipeline and message ID.
func idField(pipeline, id string) string {
	return strconv.Itoa(len(pipeline)) + ":" + pipeline + id
}

var (
	//go:embed commit.lua
	commitLua string
	//go:embed find.lua
	findLua string
	//go:embed page.lua
	pageLua string
	//go:embed whole.lua
	wholeLua string
	//go:embed due.lua
	dueLua string
	//go:embed books.lua
	booksLua string
	//go:embed groups.lua
	groupsLua string
	//go:embed died.lua
	diedLua string

	commitScript = rueidis.NewLuaScript(commitLua)
	findScript   = rueidis.NewLuaScript(findLua)
	pageScript   = rueidis.NewLuaScript(pageLua)
	wholeScript  = rueidis.NewLuaScript(wholeLua)
	dueScript    = rueidis.NewLuaScript(dueLua)
	booksScript  = rueidis.NewLuaScript(booksLua)
	groupsScript = rueidis.NewLuaScript(groupsLua)
	diedScript   = rueidis.NewLuaScript(diedLua)
)
