// Package crm is the CRM system: business events are applied once each to the right profile,
// by their own handlers, with an audit trail that can be replayed. Use it in a process of its
// own (package connect puts it together from a configuration) or inside an application, with
// its own Go functions as handlers:
//
//	sys, err := crm.New(crm.Parts{Queues: q, Letters: l, Log: log, Replays: r, Profiles: p,
//		Handlers: []handler.Spec{{Name: "welcome", Types: []string{"member.created"}, Handler: handler.Func(welcome)}},
//	}, crm.Options{Create: true})
//	go sys.Run(ctx)
//	results, err := sys.Acceptor().Accept(ctx, [][]byte{event}, nil)
//
// An event's way:
//
//	accept ─▶ queue crm-events ─▶ sync log ─▶ route ─▶ identity ─▶ handle ─▶ sync log ─▶ settled
//	             ▲       ▲        (begin)    handler?   profile             (end)
//	             │       └── replays, with the lowest priority
//	             └── crm-events-dlq: dead letters whose job is opened again
//
// What became of it:
//
//	                                     sync log                 job          dead letter
//	the handler accepted it              COMPLETED                delivered
//	it was completed before              COMPLETED, as before     skipped
//	no handler is for it                 FAILED, skipped          skipped
//	validation                           FAILED, validation       skipped
//	business                             FAILED, business         dead         yes
//	anything else, tries are left        FAILED, its kind         comes again
//	anything else, it was the last       FAILED, its kind         dead         yes
//	its worker died                      PROCESSING until its     comes again
//	                                     lease is over
//	a database is down                   as before                comes again, no try counted
package crm
