// Package postgresnotice tells by NOTIFY and LISTEN of PostgreSQL. Who listens has a connection of its own.
// Behind a pooler that has another session for each transaction LISTEN hears nothing: there who listens
// looks every second, as notice.Polled says; what it tells is heard by those who are connected directly.
package postgresnotice

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/notice"
)

// Notices are notice.Notices.
type Notices struct {
	db      *postgresdb.DB
	channel string
	polled  notice.Polled
}

var (
	_ notice.Notices = (*Notices)(nil)

	nameForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)
)

// New tells by the channel tidemill_NAME: a-z, 0-9 and _, at most 41, a letter first.
func New(db *postgresdb.DB, name string) (*Notices, error) {
	if db == nil || !nameForm.MatchString(name) {
		return nil, errors.New("notices in PostgreSQL need a connection, and a name of a-z, 0-9 and _")
	}
	return &Notices{db, "tidemill_" + name, notice.Polled{Why: "PostgreSQL is behind a pooler, where LISTEN hears nothing"}}, nil
}

// How implements notice.Notices.
func (n *Notices) How() string {
	if n.db.Pooled() {
		return n.polled.How()
	}
	return "by LISTEN of PostgreSQL"
}

// Tell implements notice.Notices.
func (n *Notices) Tell(ctx context.Context) error {
	if _, err := n.db.Exec(ctx, "SELECT pg_notify($1, '')", n.channel); err != nil {
		return fmt.Errorf("notify %s: %w", n.channel, err)
	}
	return nil
}

// Listen implements notice.Notices.
func (n *Notices) Listen(ctx context.Context) (notice.Listener, error) {
	if n.db.Pooled() {
		return n.polled.Listen(ctx)
	}
	c, err := n.db.Session(ctx)
	if err != nil {
		return nil, fmt.Errorf("listen to %s: %w", n.channel, err)
	}
	l := &listener{c}
	if _, err := c.Exec(ctx, "LISTEN "+n.channel); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen to %s: %w", n.channel, err)
	}
	return l, nil
}

// listener is a connection that listens.
type listener struct{ c *pgx.Conn }

// Wait implements notice.Listener.
func (l *listener) Wait(ctx context.Context) error {
	_, err := l.c.WaitForNotification(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("wait for a notice: %w", err)
	}
	return nil
}

// closeWithin is how long the end of a connection may take.
const closeWithin = time.Second

// Close implements notice.Listener.
func (l *listener) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = l.c.Close(ctx) // it is given up in any case
}
