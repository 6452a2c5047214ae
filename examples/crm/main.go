// Command crm embeds the CRM system in a program: queue, sync log, dead letters, profiles and
// handlers are parts of this one process. A golf club's events go in, each is applied once to
// the right member, and the sync log has what became of each.
//
//	go run ./examples/crm                            # all in memory, gone at the end
//	go run ./examples/crm -file club.db              # durable: run it twice, the second time all are known
//	go run ./examples/crm -redis redis://localhost:6379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/open"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// events are what the club's software sends.
var events = []string{
	`{"id": "evt-1", "type": "member.created", "tenantId": "club-7", "identity": {"externalId": "m-1", "email": "ann@example.com"},
		"occurredAt": "2026-01-15T10:00:00Z", "payload": {"name": "Ann", "handicap": 12}}`,
	`{"id": "evt-2", "type": "booking.created", "tenantId": "club-7", "identity": {"email": "ann@example.com"},
		"occurredAt": "2026-01-15T10:05:00Z", "payload": {"tee": "9:40"}}`,
	`{"id": "evt-3", "type": "booking.cancelled", "tenantId": "club-7", "identity": {"email": "bob@example.com"},
		"occurredAt": "2026-01-15T10:06:00Z"}`,
	`{"id": "evt-4", "type": "weather.changed", "tenantId": "club-7", "identity": {"externalId": "m-1"}, "occurredAt": "2026-01-15T10:07:00Z"}`,
	`{"id": "evt-5", "type": "member.updated", "tenantId": "club-7", "occurredAt": "2026-01-15T10:08:00Z"}`, // no identity
}

func main() {
	file := flag.String("file", "", "a file that keeps all of it; empty: it is in memory")
	redis := flag.String("redis", "", "URL of a Redis that keeps queue, dead letters and sync log instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *file, *redis); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, file, redis string) error {
	parts, err := inMemory()
	if err == nil && file != "" {
		db, problem := open.SQLite(ctx, file)
		if problem != nil {
			return problem
		}
		defer db.Close()
		err = inFile(ctx, db, &parts)
	}
	if err == nil && redis != "" {
		client, problem := open.Redis(ctx, tidemill.NewSecret(redis))
		if problem != nil {
			return problem
		}
		defer client.Close()
		err = onRedis(ctx, client, &parts)
	}
	if err != nil {
		return err
	}
	if parts.Handlers, err = handlers(parts.Profiles.(profile.Updater)); err != nil {
		return err
	}

	// Attempts that end in a queue that is then empty: all is done.
	var left atomic.Int64
	done := make(chan struct{}, 1)
	sys, err := crm.New(parts, crm.Options{Create: true, Backoff: 50 * time.Millisecond, Finished: func(a crm.Attempt) {
		if last := a.Status != crm.Failed || a.Dead || a.Kind == tidemill.Validation; last && left.Add(-1) == 0 {
			done <- struct{}{}
		}
	}})
	if err != nil {
		return err
	}
	for range 2 { // a producer may always send again
		if err := send(ctx, out, sys, &left); err != nil {
			return err
		}
	}
	if left.Load() > 0 {
		if err := work(ctx, sys, done); err != nil {
			return err
		}
	}
	return report(ctx, out, sys, parts.DeadLetters)
}

// inMemory are parts that last as long as the process.
func inMemory() (p crm.Parts, err error) {
	letters, err1 := tabledeadletter.Memory(deadletter.Options{})
	profiles, err2 := tableprofile.Memory(profile.Options{})
	return crm.Parts{Queues: memoryqueue.New(memoryqueue.Options{}), DeadLetters: letters, Profiles: profiles,
		Log: tableledger.Memory(tableledger.Options{}), Replays: tableledger.Memory(tableledger.Options{})}, errors.Join(err1, err2)
}

// inFile puts everything into one file.
func inFile(ctx context.Context, db *open.SQLiteDB, p *crm.Parts) (err error) {
	if p.Queues, err = sqlitequeue.New(ctx, db, sqlitequeue.Options{}); err != nil {
		return err
	}
	letters, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return err
	}
	if p.DeadLetters, err = tabledeadletter.New(ctx, letters, tabledeadletter.Options{}); err != nil {
		return err
	}
	profiles, err := sqlitetable.New(ctx, db, tableprofile.Spec())
	if err != nil {
		return err
	}
	if p.Profiles, err = tableprofile.New(profiles, profile.Options{Alone: true}); err != nil {
		return err
	}
	log, err1 := sqlitetable.New(ctx, db, tableledger.Spec("crm"))
	replays, err2 := sqlitetable.New(ctx, db, tableledger.Spec("crm_replay"))
	p.Log, p.Replays = tableledger.New(log, tableledger.Options{}), tableledger.New(replays, tableledger.Options{})
	return errors.Join(err1, err2)
}

// onRedis puts everything but the profiles into a Redis: the application resolves these itself,
// by its own profile.Resolver.
func onRedis(ctx context.Context, client rueidis.Client, p *crm.Parts) (err error) {
	if p.Queues, err = redisqueue.New(client, redisqueue.Options{Prefix: "example:crm"}); err != nil {
		return err
	}
	if p.DeadLetters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{Stream: "example:crm:dlq", Pipeline: crm.Queue}); err != nil {
		return err
	}
	if p.Log, err = redisledger.New(client, redisledger.Options{Name: "crm", Prefix: "example:"}); err != nil {
		return err
	}
	p.Replays, err = redisledger.New(client, redisledger.Options{Name: "crm_replay", Prefix: "example:"})
	return err
}

// handlers are what the application does with events. The kind of their error says what
// follows.
func handlers(profiles profile.Updater) ([]handler.Spec, error) {
	// The preset: attributes of the member's profile, without any code.
	attributes, err := handler.Attributes(profiles, handler.Mapping{{Attribute: "name", From: "payload.name"}, {Attribute: "handicap", From: "payload.handicap"}})
	if err != nil {
		return nil, err
	}
	// A function for one event at a time. Its first try fails, and is repeated.
	booked := handler.Func(func(_ context.Context, c *handler.Call) error {
		if c.Attempt == 1 {
			return tidemill.Fail(tidemill.Transient, "the starter's desk is closed for a moment")
		}
		return nil
	})
	// A function for many at a time, whose error names the failed ones.
	cancelled := handler.Batch(func(_ context.Context, calls []*handler.Call) error {
		var wrong tidemill.Partial
		for i, c := range calls {
			if c.New {
				wrong.Failed = append(wrong.Failed, tidemill.Failed{Index: i, Err: tidemill.Fail(tidemill.Business, "nobody has booked anything")})
			}
		}
		if wrong.Failed != nil {
			return &wrong
		}
		return nil
	})
	return []handler.Spec{
		{Name: "attributes", Types: []string{"member.*"}, Handler: attributes},
		{Name: "book", Types: []string{"booking.created"}, Handler: booked},
		{Name: "cancel", Types: []string{"booking.cancelled"}, Handler: cancelled, Many: 100},
	}, nil
}

// send sends all events, and prints what became of them.
func send(ctx context.Context, out io.Writer, sys *crm.System, left *atomic.Int64) error {
	raws := make([][]byte, len(events))
	for i, e := range events {
		raws[i] = []byte(e)
	}
	results, err := sys.Acceptor().Accept(ctx, raws, nil)
	if err != nil {
		return err
	}
	for _, r := range results {
		fmt.Fprintf(out, "%s %s\n", r.ID, r.Status)
		if r.Status == accept.Accepted {
			left.Add(1)
		}
	}
	return nil
}

// work runs the system until all is done.
func work(ctx context.Context, sys *crm.System, done <-chan struct{}) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()
	select {
	case <-done:
	case err := <-ended:
		return err
	}
	stop()
	return <-ended
}

// report shows the sync log, the dead letters and the books.
func report(ctx context.Context, out io.Writer, sys *crm.System, letters deadletter.Store) error {
	for _, id := range []string{"evt-1", "evt-2", "evt-3", "evt-4"} {
		e, err := sys.Event(ctx, "club-7", id)
		if err != nil {
			return err
		}
		why := ""
		if e.Record.Kind != "" {
			why = ", " + e.Record.Kind
		}
		fmt.Fprintf(out, "%s begun %d times: %s%s\n", id, e.Record.Attempts, e.Record.State, why)
	}
	for l, err := range letters.List(ctx, deadletter.Filter{Pipeline: crm.Queue}) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "dead: %s, %s: %s\n", l.ID, l.Kind, l.Cause)
	}
	a, err := sys.Audit(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "accepted %d = delivered %d + skipped %d + dead %d, balanced: %v\n", a.Accepted, a.Delivered, a.Skipped, a.Dead, a.Balanced)
	return nil
}
