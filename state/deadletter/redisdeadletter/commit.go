package redisdeadletter

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// stored is a dead letter as it was read, with its stored bytes.
type stored struct {
	*deadletter.Record
	old string // its companion
}

// place is the set that a dead letter is in, among those of its pipeline.
type place string

const (
	held  place = "held"
	ready place = "ready" // to be handed out: wakes sources
	later place = "later" // delayed: wakes sources, which may have been waiting for longer
	lease place = "lease" // handed out
	gone  place = ""
)

// where returns the place of a dead letter by its state, and the time where that counts.
func where(r *deadletter.Record) (place, int64) {
	switch {
	case r.State == deadletter.Held:
		return held, 0
	case !r.Until.IsZero():
		return lease, wire.MillisUp(r.Until)
	case !r.Due.IsZero():
		return later, wire.MillisUp(r.Due)
	}
	return ready, 0
}

// change is one change of one dead letter, as commit.lua makes it.
type change struct {
	kind     string // add, set, del, drop, join, leave
	r        *deadletter.Record
	old      string   // what was read: the companion, or the list of its id field (add)
	entry    string   // that the dead letter gets (add), or to drop; empty: a new one
	history  bool     // it changed
	book     string   // del: how it ended
	replaced int      // add, set: how many messages of its name died before this one
	fields   []string // of a new entry
}

// commit is a batch of changes. A change of a dead letter that changed since it was read
// does not fit: then all of the batch is refused, or only such changes are left out.
type commit struct {
	all      bool
	limit    int    // dead letters of a pipeline; 0: not checked
	read     string // mark that was read; empty: not checked
	mark     string // to write; empty: none
	changes  []change
	overfull struct { // answered: what does not fit
		pipeline string
		letters  int
	}
}

var (
	errConflict = errors.New("somebody else changed the letters")
	errNoRoom   = errors.New("no room")
)

// run makes the changes and says which of them were made. After errConflict and errNoRoom
// nothing is changed.
func (c *commit) run(ctx context.Context, s *Store) ([]bool, error) {
	keys := []string{s.stream, s.seq, s.mark, s.ids, s.meta, s.history, s.order, s.deaths, s.known, s.group, s.died, s.causes, s.pipelines}
	pipelines, number := []string{}, map[string]int{}
	for i := range c.changes {
		p := c.changes[i].pipeline()
		if number[p] == 0 {
			pipelines = append(pipelines, p)
			number[p] = len(pipelines)
			keys = append(keys, s.keysOf(p)...)
		}
	}
	mode := "each"
	if c.all {
		mode = "all"
	}
	args := make([]string, 0, 5+16*len(c.changes))
	args = append(args, mode, c.read, c.mark, strconv.Itoa(c.limit), strconv.Itoa(len(c.changes)))
	for i := range c.changes {
		args = c.changes[i].append(args, number[c.changes[i].pipeline()])
	}
	answer, err := commitScript.Exec(ctx, s.client, keys, args).AsIntSlice()
	if err != nil {
		return nil, failed(err)
	}
	switch {
	case answer[0] == 0:
		return nil, errConflict
	case answer[0] == 2:
		c.overfull.pipeline, c.overfull.letters = pipelines[answer[1]-1], int(answer[2])
		return nil, errNoRoom
	case len(answer) != len(c.changes)+1:
		return nil, fmt.Errorf("the script answered %d of %d changes", len(answer)-1, len(c.changes))
	}
	made := make([]bool, len(c.changes))
	for i := range made {
		made[i] = answer[i+1] == 1
	}
	return made, nil
}

func (c *change) pipeline() string {
	if c.r == nil {
		return ""
	}
	return c.r.Pipeline
}

// append writes the change as arguments of commit.lua.
func (c *change) append(args []string, pipeline int) []string {
	var seq, id, meta, to, at, history, group, owner string
	book := c.book
	if c.r != nil {
		if id = idField(c.r.Pipeline, c.r.ID); c.r.Seq > 0 {
			seq = strconv.FormatInt(c.r.Seq, 10)
		}
	}
	if c.history {
		group, owner = groupOf(c.r), idField(c.r.Pipeline, c.r.Tenant)
	}
	if c.kind == "add" || c.kind == "set" {
		p, ms := where(c.r)
		meta, to, at = encodeMeta(c.r), string(p), strconv.FormatInt(ms, 10)
		if c.history {
			history = string(rules.EncodeHistory(c.r.History))
		}
		if c.replaced > 0 {
			book = strconv.Itoa(c.replaced)
		}
	}
	args = append(args, c.kind, seq, strconv.Itoa(pipeline), id, c.old, meta, c.entry, to, at, history, group, owner, book, strconv.Itoa(len(c.fields)))
	return append(args, c.fields...)
}

// failed gives an error of the connection its kind. Every change contains what was read, so
// sending it again after a lost answer is harmless.
func failed(err error) error {
	if k := redisconn.Kind(err); k != tidemill.NoKind {
		return &tidemill.Error{Kind: k, Err: err}
	}
	return err
}
