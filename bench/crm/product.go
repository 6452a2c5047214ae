package crm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// opened are the stores of one contender.
type opened struct {
	crm.Parts
	close []func() error
}

// open opens the stores as the product does: one file, or a Redis and a PostgreSQL.
func open(ctx context.Context, p *part) (o *opened, err error) {
	o = &opened{}
	if p.Redis == "" {
		return o, o.embedded(ctx, filepath.Join(p.Folder, "crm.db"))
	}
	return o, o.onServers(ctx, p)
}

func (o *opened) embedded(ctx context.Context, file string) error {
	db, err := sqlitedb.Open(ctx, file, sqlitedb.Options{})
	if err != nil {
		return err
	}
	o.close = append(o.close, db.Close)
	if o.Queues, err = sqlitequeue.New(ctx, db, sqlitequeue.Options{}); err != nil {
		return err
	}
	letters, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return err
	}
	if o.DeadLetters, err = tabledeadletter.New(ctx, letters, tabledeadletter.Options{}); err != nil {
		return err
	}
	log, err := sqlitetable.New(ctx, db, tableledger.Spec("crm"))
	if err != nil {
		return err
	}
	replays, err := sqlitetable.New(ctx, db, tableledger.Spec("crm_replay"))
	if err != nil {
		return err
	}
	o.Log, o.Replays = tableledger.New(log, tableledger.Options{}), tableledger.New(replays, tableledger.Options{})
	profiles, err := sqlitetable.New(ctx, db, tableprofile.Spec())
	if err != nil {
		return err
	}
	o.Profiles, err = tableprofile.New(profiles, profile.Options{Alone: true})
	return err
}

func (o *opened) onServers(ctx context.Context, p *part) error {
	client, err := redisconn.Open(ctx, tidemill.NewSecret("redis://"+p.Redis), redisconn.Options{})
	if err != nil {
		return err
	}
	o.close = append(o.close, func() error { client.Close(); return nil })
	if o.Queues, err = redisqueue.New(client, redisqueue.Options{Prefix: "tidemill:crm"}); err != nil {
		return err
	}
	if o.DeadLetters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{Stream: "crm:dlq", Pipeline: crm.Queue}); err != nil {
		return err
	}
	db, err := postgresdb.Open(ctx, tidemill.NewSecret(p.Postgres), postgresdb.Options{})
	if err != nil {
		return err
	}
	o.close = append(o.close, func() error { db.Close(); return nil })
	log, err := postgresledger.New(ctx, db, postgresledger.Options{Name: "crm"})
	if err != nil {
		return err
	}
	if o.Replays, err = postgresledger.New(ctx, db, postgresledger.Options{Name: "crm_replay"}); err != nil {
		return err
	}
	if o.Log, err = ledger.GatherStore(log, ledger.GatherOptions{Calls: 1, Entries: 500}); err != nil { // as connect does
		return err
	}
	profiles, err := postgrestable.New(ctx, db, tableprofile.Spec())
	if err != nil {
		return err
	}
	o.Profiles, err = tableprofile.New(profiles, profile.Options{})
	return err
}

func (o *opened) closeAll() (err error) {
	for _, f := range slices.Backward(o.close) {
		err = errors.Join(err, f())
	}
	return err
}

// playProduct plays a part with the product.
func playProduct(ctx context.Context, p *part) (err error) {
	debug.SetGCPercent(400) // as tidemill run does
	o, err := open(ctx, p)
	if o != nil {
		defer func() { err = errors.Join(err, o.closeAll()) }()
	}
	if err != nil {
		return err
	}
	handled := process.NewSeen(p.Jobs)
	o.Handlers = []handler.Spec{{Name: "nothing", Types: []string{"*"}, Many: p.Many, Handler: handler.Func(func(_ context.Context, c *handler.Call) error {
		_, err := handled.One(c.Event.Raw)
		return err
	})}}
	var settled atomic.Int64
	all := make(chan struct{})
	sys, err := crm.New(o.Parts, crm.Options{Workers: p.Workers, Batch: p.Batch, Ahead: p.Ahead, Create: true, PerSecond: -1, PerTenant: -1,
		Settled: func(pipeline string, ends []tidemill.Settlement) {
			if n := settled.Add(int64(len(ends))); n >= int64(p.Jobs) && n-int64(len(ends)) < int64(p.Jobs) {
				close(all)
			}
		}})
	if err != nil {
		return err
	}
	bring := func(es []drawn) error {
		raws := make([][]byte, len(es))
		for i := range es {
			raws[i] = es[i].raw
		}
		_, err := sys.Acceptor().Accept(ctx, raws, nil)
		return err
	}
	es := newEvents().take(p.Jobs)
	if p.What == "add" {
		if err := p.Begin(); err != nil {
			return err
		}
		err := bulks(es, bring)
		p.End()
		if err != nil {
			return err
		}
		return tell(ctx, p, sys, report{Done: p.Jobs})
	}
	if !p.Fresh {
		if err := join(ctx, o.Profiles); err != nil {
			return err
		}
	}
	if err := bulks(es, bring); err != nil {
		return err
	}
	if err := p.Begin(); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(running) }()
	err = process.Within(ctx, all, nil, "process")
	p.End()
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	return tell(ctx, p, sys, report{Done: handled.N(), Twice: handled.Twice()})
}

// join makes the profiles of all members.
func join(ctx context.Context, profiles profile.Resolver) error {
	for from := range members / together {
		asks, answers := make([]profile.Ask, together), make([]profile.Answer, together)
		for i := range asks {
			tenant, who := member(from*together + i)
			asks[i] = profile.Ask{Tenant: tenant, Identities: who, Create: true}
		}
		if err := profiles.Resolve(ctx, asks, answers); err != nil {
			return err
		}
		for i := range answers {
			if err := answers[i].Err; err != nil {
				return err
			}
		}
	}
	return nil
}

// tell reports, with the state of queue, sync log and books.
func tell(ctx context.Context, p *part, sys *crm.System, r report) error {
	a, err := sys.Audit(ctx)
	if err != nil {
		return err
	}
	if !a.Balanced || a.Accepted != uint64(p.Jobs) || a.Delivered+a.InFlight != a.Accepted || a.Dead != 0 || a.Skipped != 0 {
		r.Failed = fmt.Sprintf("the books say %+v", *a)
	}
	r.Held = int64(a.InFlight)
	for rec, err := range sys.Records(ctx, crm.RecordFilter{State: crm.IsCompleted}) {
		if err != nil {
			return err
		}
		if rec.Attempts != 1 {
			r.Failed = fmt.Sprintf("event %s was begun %d times", rec.ID, rec.Attempts)
		}
		r.Completed++
	}
	return p.Report(r)
}
