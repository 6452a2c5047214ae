// Package kafkasource hands out the records of a Kafka topic to the members of a consumer
// group, and takes records in. Use it where work is spread over machines by partitions, or
// where events wait in Kafka already.
//
// Positions and books live together in the group's offset commits. The offset is that of
// the oldest record that has not ended; the commit's metadata holds how all others ended,
// which of the later ones have ended, and the tries of those that failed. So a settlement
// and its row in the books are one write, also out of order, and a settlement is Applied
// only after the answer to that write. A settled record is not handed out again after a
// crash; one that was handed out and not settled is.
//
// The source forwards nothing and keeps no dead messages. A record that is delayed waits in
// the memory of the member that has its partition; if the partition moves, it comes again
// at once. Hand-outs are counted in the process; after a crash only the oldest record's
// count is exact, and others that may have been handed out before say two. Tries are kept
// as long as the commit has room (a few hundred runs of failed records): beyond that a
// record may be tried more often than its policy says, never less.
package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
)

// Options tune a source; the zero value is ready to use.
type Options struct {
	// Instance names this member, the same at every start and different from all others.
	// Then a restart takes over its partitions at once, without a rebalance; but Close does
	// not give them to others, who wait for Session. Empty: partitions move when the source
	// is closed.
	Instance string

	Session   time.Duration // a member that is silent for this long has lost its partitions; 0: 45s
	Rebalance time.Duration // how long members may take to give partitions up; 0: 60s
	Drain     time.Duration // how long the handed-out records of a moving partition may be settled, below Rebalance; 0: 10s
	Answer    time.Duration // timeout of a broker's answer; 0: 10s
	Left      time.Duration // a record that was left comes again after this time, unless it is settled before; 0: 1 min

	Buffer     int // records read ahead of being handed out, over all partitions; 0: 4096
	MaxAhead   int // hand-outs of a partition stop this many offsets behind its oldest record that has not ended; 0: 16384, the maximum
	FetchBytes int // requested at once, which bounds what a broker sends ahead; 0: 8 MiB

	// OnLost says what happens when unsettled records are gone: deleted by retention, or
	// with a topic that was recreated. Lost, if not nil, is told.
	OnLost OnLost
	Lost   func(Loss)

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// OnLost is what to do about records that are gone.
type OnLost uint8

const (
	// Stop makes Receive fail until somebody decides: nothing is counted or passed over.
	Stop OnLost = iota
	// Continue counts them as lost in the books and goes on with the remaining records.
	Continue
)

// Loss is the missing part of a partition.
type Loss struct {
	Topic     string
	Partition int32
	From, To  int64  // offsets: we were at From, the log goes on at To
	Records   uint64 // not settled; records compacted or rolled back before are among them
	Cause     string
	Counted   bool // in the books as lost: the source went on
}

// Source is one member of a group. Use New.
type Source struct {
	cluster *kafkaconn.Cluster
	topic   string
	group   string
	o       Options
	asking  *kgo.Client // for queries: never a member
	admin   *kadm.Client
	by      uint32 // names this member in what it commits

	turn  chan struct{} // holds one token: its holder commits
	wake  chan struct{} // Receive must look again
	room  chan struct{} // the reader must look again
	quiet chan struct{} // a moving partition has one handed-out record less
	found chan struct{} // the outcome of an unanswered commit is known

	stop  context.CancelFunc // ends the reader; nil before the first Receive
	ended chan struct{}      // closed when the reader has ended

	lineages atomic.Pointer[map[uint32]lineage] // by partition; replaced as a whole under mu

	mu       sync.Mutex // guards the fields below; never held during a wait
	closed   bool
	member   membership
	parts    map[int32]*partition
	order    []int32 // of parts, sorted
	turned   int     // where in order the next hand-out begins
	later    due
	receipts map[receipt]*claim // ends whose commit failed, to be sent again
	names    names
	epochs   uint32
	flush    bool // Receive is to ask for what is held
	trouble  error
	stopped  map[int32]error // partitions with a loss that needs a decision
	before   earlier
}

// membership is one session as a member of the group; the next one has another client.
type membership struct {
	client  *kgo.Client        // nil between sessions
	end     context.CancelFunc // cuts the member off, without leaving the group
	cut     context.CancelFunc // ends the poll that waits now; nil: none does
	paused  map[int32]bool     // partitions that the client does not fetch
	restart error              // why the session has to start over; nil: it need not
}

// anew ends the session.
func (m *membership) anew(err error) {
	if m.restart == nil {
		m.restart = err
	}
	m.look()
}

// look ends the poll that waits now, so that the reader looks again.
func (m *membership) look() {
	if m.cut != nil {
		m.cut()
	}
}

// earlier is what is known of partitions from before they are taken over.
type earlier struct {
	fetched map[int32]committed  // what the group has committed, from the answer to the member's question
	past    map[int32]row        // books as we last saw them
	lost    map[int32]*partition // taken away while commits were unanswered
	back    map[int32]int64      // where a log was cut off below what we had read of it
	taken   time.Time            // when partitions were taken over last
}

var _ tidemill.Bookkeeper = (*Source)(nil)

// New makes a source of a topic for a member of a group. It connects at the first Receive;
// the group never waits for a member that never receives.
func New(cluster *kafkaconn.Cluster, topic, group string, o Options) (*Source, error) {
	o = o.withDefaults()
	switch {
	case cluster == nil || topic == "" || group == "":
		return nil, errors.New("kafka source: a cluster, a topic and a group are needed")
	case o.Drain >= o.Rebalance:
		return nil, fmt.Errorf("kafka source: Drain %v has to be below Rebalance %v, or the group goes on without us", o.Drain, o.Rebalance)
	case o.MaxAhead < 1 || o.MaxAhead > maxAhead:
		return nil, fmt.Errorf("kafka source: MaxAhead %d: want 1 to %d, more has no room in a commit", o.MaxAhead, maxAhead)
	case o.Buffer < 1 || o.FetchBytes < 1 || o.FetchBytes > 1<<30:
		return nil, errors.New("kafka source: Buffer and FetchBytes have to be above zero, and FetchBytes at most 1 GiB")
	case o.OnLost > Continue:
		return nil, fmt.Errorf("kafka source: OnLost %d: want Stop or Continue", o.OnLost)
	}
	asking, err := cluster.Client()
	if err != nil {
		return nil, err
	}
	return &Source{
		cluster: cluster, topic: topic, group: group, o: o, asking: asking, admin: kadm.NewClient(asking),
		turn: make(chan struct{}, 1), wake: make(chan struct{}, 1), room: make(chan struct{}, 1), quiet: make(chan struct{}, 1),
		ended: make(chan struct{}), parts: map[int32]*partition{}, receipts: map[receipt]*claim{}, stopped: map[int32]error{},
		before: earlier{fetched: map[int32]committed{}, past: map[int32]row{}, lost: map[int32]*partition{}, back: map[int32]int64{}},
		by:     rand.Uint32() | 1, found: make(chan struct{}, 1),
	}, nil
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		at    *time.Duration
		usual time.Duration
	}{{&o.Session, 45 * time.Second}, {&o.Rebalance, time.Minute}, {&o.Drain, 10 * time.Second}, {&o.Answer, 10 * time.Second}, {&o.Left, time.Minute}} {
		if *d.at <= 0 {
			*d.at = d.usual
		}
	}
	if o.Buffer == 0 {
		o.Buffer = 4096
	}
	if o.MaxAhead == 0 {
		o.MaxAhead = maxAhead
	}
	if o.FetchBytes == 0 {
		o.FetchBytes = 8 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Traits implements tidemill.Source. The session is kept by the client's own heartbeats.
func (s *Source) Traits() tidemill.Traits { return tidemill.Traits{Delays: true} }

// Close leaves the group, so that others have its partitions at once, and ends the
// connections. Records that are handed out and not settled go to them. Receive and Settle
// fail from then on.
func (s *Source) Close() error {
	s.mu.Lock()
	first, stop := !s.closed, s.stop
	s.closed = true
	s.mu.Unlock()
	signal(s.wake)
	signal(s.quiet)
	if stop != nil {
		stop()
		<-s.ended
	}
	if first {
		s.turn <- struct{}{} // the last commit has its answer; from here on nothing commits
		s.asking.Close()
	}
	return nil
}

// errClosed is the error of a closed source.
var errClosed = errors.New("the kafka source is closed")

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
