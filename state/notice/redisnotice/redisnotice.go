// Package redisnotice tells by Redis, on one server or a cluster: each notice is an entry of a stream that
// keeps the newest alone, and who listens waits at the server for the next one.
package redisnotice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/notice"
)

// bound is how much longer than a wait its answer may take.
const bound = 5 * time.Second

// Notices are notice.Notices.
type Notices struct {
	client rueidis.Client
	stream string
}

var _ notice.Notices = (*Notices)(nil)

// New tells by a stream of a name.
func New(client rueidis.Client, name string) (*Notices, error) {
	if client == nil || name == "" {
		return nil, errors.New("notices in Redis need a connection and a name")
	}
	return &Notices{client, name + ":told"}, nil
}

// How implements notice.Notices.
func (*Notices) How() string { return "by a stream of Redis" }

// Tell implements notice.Notices.
func (n *Notices) Tell(ctx context.Context) error {
	err := n.client.Do(ctx, n.client.B().Xadd().Key(n.stream).Maxlen().Threshold("1").Id("*").FieldValue().FieldValue("n", "1").Build()).Error()
	return redisconn.Error(err, "tell by the stream %s", n.stream)
}

// Listen implements notice.Notices.
func (n *Notices) Listen(ctx context.Context) (notice.Listener, error) {
	l := &listener{n: n}
	return l, l.mark(ctx)
}

// listener waits for what comes after an entry.
type listener struct {
	n    *Notices
	seen string
}

// mark has what was told until now count as heard.
func (l *listener) mark(ctx context.Context) error {
	last, err := l.n.client.Do(ctx, l.n.client.B().Xrevrange().Key(l.n.stream).End("+").Start("-").Count(1).Build()).AsXRange()
	if err != nil && !rueidis.IsRedisNil(err) {
		return redisconn.Error(err, "read the newest entry of the stream %s", l.n.stream)
	}
	if l.seen = "0-0"; len(last) > 0 {
		l.seen = last[0].ID
	}
	return nil
}

// Wait implements notice.Listener. What comes while it marks what it has heard counts as heard with it: the
// caller looks afterwards.
func (l *listener) Wait(ctx context.Context) error {
	for {
		var at time.Time // the wait is of a length, whatever the clock says
		woken, err := redisconn.Await(ctx, l.n.client, at, bound, redisconn.Wake{Stream: l.n.stream, Seen: l.seen, Rest: at.Add(redisconn.Longest)})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("wait for a notice: %w", redisconn.Error(err, "wait for the stream %s", l.n.stream))
		case woken >= 0:
			return l.mark(ctx)
		}
	}
}

// Close implements notice.Listener.
func (*listener) Close() {}
