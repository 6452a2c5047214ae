package redistable

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
)

// Tx is a transaction of the tables of a group.
type Tx struct {
	ctx     context.Context
	client  rueidis.Client
	group   string
	view    bool
	tables  map[string]part // those that take part, by name
	moved   bool            // something changed between two readings
	reads   int             // how often something was read
	undone  bool            // nothing is to be written
	refused error           // a table cannot take part
}

// part is one table of a transaction.
type part interface {
	changes(*changes) // adds its own
	reload() error    // reads the spec of its table again
}

// changes is what the script of a commit is given.
type changes struct {
	tables        int
	keys          []string
	read, written []string
}

func (t *Tx) refuse(err error) error {
	t.refused = tidemill.Fail(tidemill.Internal, "%w", err)
	return t.refused
}

// commit writes all changes, if all that was read is still so.
func (t *Tx) commit() error {
	var c changes
	for _, p := range t.tables {
		p.changes(&c)
	}
	if t.refused != nil || c.tables == 0 {
		return t.refused
	}
	args := append(append([]string{strconv.Itoa(c.tables)}, c.read...), c.written...)
	done, err := commitScript.Exec(t.ctx, t.client, c.keys, args).AsInt64()
	if err != nil {
		return redisconn.Error(err, "commit changes of %d tables", c.tables)
	}
	switch done {
	case 0:
		return errMoved
	case 2:
		for _, p := range t.tables {
			if err := p.reload(); err != nil {
				return err
			}
		}
		return errMoved
	}
	return nil
}

// failed is the error of a transaction that do has failed with err, unless it has seen halves of what
// others changed.
func (t *Tx) failed(err error) error {
	if t.reads < 2 || t.moved || t.refused != nil {
		return err
	}
	t.undone = true
	if now := t.commit(); errors.Is(now, errMoved) {
		return now
	}
	return err
}

// errMoved says that what was read has changed.
var errMoved = tidemill.Fail(tidemill.Transient, "other transactions changed what was read, each time")

// most is how often a transaction is begun that others get in the way of.
const most = 1000

// tries does a transaction until no other has changed what it read.
func tries(ctx context.Context, begin func() *Tx, do func(*Tx) error) (err error) {
	for range most {
		if err := ctx.Err(); err != nil {
			return err
		}
		t := begin()
		if err = do(t); t.moved {
			err = errMoved
		}
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return err
}
