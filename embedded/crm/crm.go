// Package crm is the CRM system in one file, for applications that apply business events to
// profiles and want no server for it: queue, sync log, dead letters and profiles are in the
// file.
//
//	club, err := crm.Open(ctx, "club.db",
//		crm.Attributes("member.*", handler.Mapping{{Attribute: "name", From: "payload.name"}}),
//		crm.Handle("booking.created", func(ctx context.Context, c *handler.Call) error { return book(ctx, c) }))
//	defer club.Close()
//	results, err := club.Accept(ctx, []byte(`{"id": "evt-1", "type": "member.created", …}`))
//	err = club.Run(ctx)
//
// Package systems/crm says what is promised; use it where servers or other backends are wanted.
package crm

import (
	"context"
	"errors"
	"time"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/open"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// CRM is the system with its file. What operators may ask of it is in crm.System.
type CRM struct {
	*crm.System
	file     *open.SQLiteDB
	profiles *tableprofile.Store[*open.SQLiteTx]
	dead     deadletter.Store
}

// An Option says how events are handled.
type Option func(*opening) error

// opening is a file whose system is being put together.
type opening struct {
	options  crm.Options
	handlers []handler.Spec
	log      *tableledger.Ledger[*open.SQLiteTx]
	profiles *tableprofile.Store[*open.SQLiteTx]
}

// now is the time by the clock of the options, which With may still set.
func (o *opening) now() time.Time {
	if o.options.Now == nil {
		return time.Now()
	}
	return o.options.Now()
}

// Handle lets do work on the events of a type; patterns such as member.* are types too. It is
// called with one event at a time, for at most 10 s. The kind of its error says what follows:
// see package handler.
func Handle(types string, do func(context.Context, *handler.Call) error) Option {
	return Spec(handler.Spec{Name: types, Types: []string{types}, Handler: handler.Func(do)})
}

// Attributes lets the events of a type change attributes of their profile, in one transaction
// with the entry of the sync log that says so.
func Attributes(types string, m handler.Mapping) Option {
	return func(o *opening) error {
		h, err := handler.AttributesIn(o.log, o.profiles, m)
		if err != nil {
			return err
		}
		o.handlers = append(o.handlers, handler.Spec{Name: types, Types: []string{types}, Handler: h, Many: 100})
		return nil
	}
}

// Spec adds any other handler.
func Spec(s handler.Spec) Option {
	return func(o *opening) error {
		o.handlers = append(o.handlers, s)
		return nil
	}
}

// With changes the options of the system.
func With(change func(*crm.Options)) Option {
	return func(o *opening) error {
		change(&o.options)
		return nil
	}
}

// Open opens a file, and makes it where there is none. No other process may have it open.
// Profiles are made for identities that nobody has.
func Open(ctx context.Context, path string, options ...Option) (_ *CRM, err error) {
	c := &CRM{}
	if c.file, err = open.SQLite(ctx, path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.file.Close())
		}
	}()
	o := &opening{options: crm.Options{Create: true}}
	log, err := sqlitetable.New(ctx, c.file, tableledger.Spec(crm.Name))
	if err != nil {
		return nil, err
	}
	o.log = tableledger.New(log, tableledger.Options{Now: o.now})
	profiles, err := sqlitetable.New(ctx, c.file, tableprofile.Spec())
	if err != nil {
		return nil, err
	}
	if c.profiles, err = tableprofile.New(profiles, profile.Options{Now: o.now, Alone: true}); err != nil {
		return nil, err
	}
	o.profiles = c.profiles
	for _, set := range options {
		if err := set(o); err != nil {
			return nil, err
		}
	}
	queues, err := sqlitequeue.New(ctx, c.file, sqlitequeue.Options{Now: o.options.Now, Log: o.options.Log})
	if err != nil {
		return nil, err
	}
	letters, err := sqlitetable.New(ctx, c.file, tabledeadletter.Spec())
	if err != nil {
		return nil, err
	}
	if c.dead, err = tabledeadletter.New(ctx, letters, tabledeadletter.Options{Options: deadletter.Options{Now: o.options.Now}}); err != nil {
		return nil, err
	}
	replays, err := sqlitetable.New(ctx, c.file, tableledger.Spec(crm.Name+"_replay"))
	if err != nil {
		return nil, err
	}
	c.System, err = crm.New(crm.Parts{Queues: queues, DeadLetters: c.dead, Log: o.log, Replays: tableledger.New(replays, tableledger.Options{Now: o.now}), Profiles: c.profiles, Handlers: o.handlers}, o.options)
	if err != nil {
		return nil, err
	}
	c.Repeat(flow.Loop{Name: "queue names", Every: time.Minute, Do: queues.Sweep})
	return c, nil
}

// Accept takes events in, as JSON, and says of each what became of it. Those accepted are on
// disk. After an error the same events may be sent again.
func (c *CRM) Accept(ctx context.Context, events ...[]byte) ([]accept.Result, error) {
	return c.Acceptor().Accept(ctx, events, nil)
}

// Profiles are those of the file.
func (c *CRM) Profiles() profile.Store { return c.profiles }

// DeadLetters are the events that were given up, under the pipeline crm.Queue.
func (c *CRM) DeadLetters() deadletter.Store { return c.dead }

// Close closes the file. Call it after Run has returned.
func (c *CRM) Close() error { return c.file.Close() }
