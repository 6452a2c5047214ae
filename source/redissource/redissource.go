// Package redissource hands out the entries of a Redis stream through a consumer group,
// and brings messages into streams ([NewIntake]). Use it where producers write into Redis,
// or where HTTP ingest and processing run as processes of their own.
//
// Entries that other programs wrote come out with their fields as headers, and with their
// entry's id as ID, by which an ack from outside may settle them (a Settlement without a
// Mark). Entries that the Intake wrote come out as the messages that went in, with their own
// IDs, which do not locate an entry. Any number of sources may share a group: an entry is
// handed out by one of them at a time, and goes to another when its owner has not renewed it
// for a lease. Settled entries are deleted from the stream, so that its length is the work
// left. A stream with several groups is trimmed as far as all of them have finished.
//
// Beside the stream it keeps, in the same slot of a cluster:
//
//	{stream}:books:<group>            hash: the books, and where to go on if the group is gone
//	{stream}:due:<group>              sorted set: delayed entries, by the time they come back
//	{stream}:again:<group>            hash: failed tries of entries, and the last cause
//	{stream}:gate:<group>             hash: the gate, while it is closed
//	{stream}:probes:<group>           sorted set: probes that are out
//	{stream}:consumer:<group>:<name>  string: which process goes by that name
//	{stream}:known…                   hashes: names that the Intake remembers
package redissource

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// Options name a stream and tune its source.
type Options struct {
	Stream   string        // required
	Group    string        // empty means "processor-group"
	Consumer string        // name in the group, the same after a restart where possible; required
	Process  string        // identifies this process and machine: a restart with the same value takes over its name at once; empty: names are taken over when their lease has ended
	Lease    time.Duration // how long an entry belongs to a source that does not renew it; 0 means 60s
	// Block is how long a read waits at the server; 0 means 2s, and at most an eighth of Lease. If
	// another instance delays an entry for less than that, it may come by as much later when
	// nothing else comes.
	Block time.Duration

	Batch  int           // entries that are read at once, at most; 0 means as many as are asked for
	Grows  bool          // Batch is how reads begin: they ask for more, up to 1,000, while they find as many
	Answer time.Duration // how long an answer to a read may take, beyond what the read waits; 0 means 10s

	ClaimEvery time.Duration // interval of searching for entries without renewal; 0 means half of Lease
	ClaimBatch int           // pending entries searched at once; 0 means 1000
	ClaimOnce  bool          // one batch at a time, then not before ClaimEvery has passed again; else all batches
	ClaimPause time.Duration // between the batches of one round, in which new entries are read; 0: none

	// Drains leaves acked entries that were not deleted in the stream, for Drain, which
	// needs it. Without it they count as done, and are trimmed.
	Drains bool

	// Report is told what the engine cannot see. Several calls may make reports at a time,
	// so it must not block. Nil: no reports.
	Report func(Report)
}

// A Report tells of an event in the stream that the engine did not cause.
type Report struct {
	What  What
	Count uint64   // of its messages, where that is known
	IDs   []string // of some of their entries, where they are known: at most a hundred
	Text  string   // a sentence for an operator
}

// What is the subject of a Report.
type What string

// Subjects of reports.
const (
	Lost     What = "lost"      // entries were deleted or trimmed before they were settled; the books count them
	WentBack What = "went_back" // the stream knows less than it did: flushed, deleted, restored, failed over
	NewGroup What = "new_group" // the group was gone and is made again, from the last confirmed entry on
	Renamed  What = "renamed"   // the consumer's name belongs to another process: a suffix was taken
	Claimed  What = "claimed"   // entries without renewal were taken over, and are handed out again
	Drained  What = "drained"   // entries that would never have been delivered were found, and are handed out (see Drain)
	NoDrain  What = "no_drain"  // the stream has several groups: Drain leaves it alone
	Removed  What = "removed"   // idle consumers were removed from the group: IDs are their names
)

// The defaults of Options.
const (
	Group = "processor-group"
	lease = time.Minute     // "claim idle 60 s", every 30 s
	block = 2 * time.Second // bounds how late a gate or delay of another process is seen
)

// Source is the entries of a stream. It is a tidemill.Keeper, Gater and Bookkeeper too.
type Source struct {
	client rueidis.Client
	o      Options
	keys   keys
	token  string

	turn   chan struct{} // cap 1: its holder tends the group
	reader reader        // of Receive's goroutine alone

	mu       sync.Mutex
	consumer string // the name that we use; empty: none yet
	joined   bool   // the group is known to exist
	tended   time.Time
	added    uint64         // entries ever added, as far as known
	made     int64          // when the group was made; -1: not known yet
	turns    uint32         // times that it was made anew: entries count their hand-outs from 1 again
	outs     map[place]out  // handed out by us, and not settled
	left     lefts          // handed out by us, and left
	held     map[place]hold // read by us and not handed out yet
	missed   bool           // an answer was lost: the group may have given us more than we know
	gate     int            // counts what may have changed the gate

	trimmed   uint64 // entries that this source has trimmed
	untrimmed bool   // there is more to trim

	trimMost int // entries at a time; trimMost but in tests

	settling settling // of Settle's goroutine alone
	draining draining // of the holder of its turn
}

// place is an entry's id.
type place struct{ ms, seq uint64 }

// out is a hand-out.
type out struct {
	count int  // of hand-outs, as in the group: a holder with another count has lost it
	probe bool // it went out through a gate, which waits for its end
}

// hold is an entry that waits to be handed out.
type hold struct {
	count int       // of hand-outs, the coming one included
	at    time.Time // when its lease began
}

var (
	_ tidemill.Source     = (*Source)(nil)
	_ tidemill.Keeper     = (*Source)(nil)
	_ tidemill.Gater      = (*Source)(nil)
	_ tidemill.Bookkeeper = (*Source)(nil)
)

// New makes a source of a stream; it sends nothing to Redis yet. The first call makes the
// group if it is missing, from the beginning of the stream.
func New(client rueidis.Client, o Options) (*Source, error) {
	if o.Stream == "" || o.Consumer == "" {
		return nil, fmt.Errorf("source of a Redis stream: name the stream and the consumer")
	}
	o.Group, o.Lease = cmp.Or(o.Group, Group), cmp.Or(o.Lease, lease)
	o.Block, o.Answer = min(cmp.Or(o.Block, block), o.Lease/8), cmp.Or(o.Answer, answer)
	o.ClaimEvery, o.ClaimBatch = cmp.Or(o.ClaimEvery, o.Lease/2), cmp.Or(o.ClaimBatch, pageOf)
	if o.Block < time.Millisecond {
		return nil, fmt.Errorf("source of stream %q: a lease of %v is too short, use a second or more", o.Stream, o.Lease)
	}
	if o.ClaimEvery < 0 || o.ClaimBatch < 0 || o.ClaimPause < 0 {
		return nil, fmt.Errorf("source of stream %q: ClaimEvery %v, ClaimBatch %d and ClaimPause %v must not be below 0", o.Stream, o.ClaimEvery, o.ClaimBatch, o.ClaimPause)
	}
	if strings.ContainsAny(o.Process, " ") {
		return nil, fmt.Errorf("source of stream %q: the name of a process has no blanks, %q has", o.Stream, o.Process)
	}
	if o.Report == nil {
		o.Report = func(Report) {}
	}
	keys, err := keysOf(o.Stream, o.Group)
	if err != nil {
		return nil, err
	}
	s := &Source{client: client, o: o, keys: keys, token: o.Process + " " + rand.Text(), turn: make(chan struct{}, 1),
		outs: map[place]out{}, held: map[place]hold{}, made: -1, missed: true, gate: 1, trimMost: trimMost, draining: draining{turn: make(chan struct{}, 1), from: "-"}}
	s.left.empty()
	s.reader.s = s
	return s, nil
}

// Traits implements tidemill.Source.
func (s *Source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Keep: s.o.Lease / 3}
}

// Close gives up the consumer's name, so that the next process has it at once. Entries that
// are handed out stay pending.
func (s *Source) Close(ctx context.Context) error {
	s.mu.Lock()
	name := s.consumer
	s.consumer, s.joined = "", false
	s.mu.Unlock()
	if name == "" {
		return nil
	}
	return s.fail(leave.Exec(ctx, s.client, []string{s.keys.stream, s.keys.consumer(name)}, []string{s.o.Group, name, s.token}).Error(), "leave")
}
