package deliverysystem

import "github.com/tidemill/tidemill/internal/plan"

// apart is what happens where partners take less than comes.
const apart = "jobs wait for a partner that is slow or away; beyond its queue.jobs they are parked beside it, and no other partner waits"

// figures are what was measured, for tidemill plan. Each has the rows of the pages that it is from.
var figures = []plan.Figures{
	{
		Size: 503, Rate: 5 * 504, CPU: []plan.Cost{{At: plan.Own, Micros: 1900. / 5}}, RSS: 0, PerPartner: true, Ingest: 177,
		Waits:  plan.Stored{At: plan.File, Bytes: 729, Of: 503},
		Kept:   []plan.Stored{{At: plan.File, Bytes: 929, Of: 610, Days: 1, What: "what an event is known by when it is sent again (delivery.key_life, a day)"}},
		Limit:  "sending: a delivery to each partner",
		Breaks: apart,
		Source: "docs/performance.md, A dead partner: one file, 503, below the limit, a fifth of five partners, both cores busy with other work; ingest: tidemill on SQLite; a waiting job: Queues, bytes of a job; what is kept: go run ./bench sizes",
		Rows:   []string{`| tidemill sqlite | 729 |`, `| one file, 503, below the limit | 504 | 49 | 152 | 1,900 |`, `| tidemill on SQLite | 6,758 | 7.03 | 15.9 | 177 |`, `| delivery, one file | 610 | 1,674 | 929 |`},
		Unknown: []string{
			"memory of the process: 1 GiB is what deploy gives it",
			"which purchase was sent to which partner, kept for 30 days (delivery.sent_life)",
		},
		QueueMax: "delivery.queue_max",
	},
	{
		Servers: []string{"redis"}, Size: 503, Rate: 5 * 155, CPU: []plan.Cost{{At: plan.Own, Micros: 1410. / 5}, {At: plan.Redis, Micros: 38.7}}, PerPartner: true, Ingest: 75.9,
		Waits:  plan.Stored{At: plan.Redis, Bytes: 406, Of: 503},
		Kept:   []plan.Stored{{At: plan.Redis, Bytes: 812, Of: 610, Days: 1, What: "what an event is known by when it is sent again (delivery.key_life, a day)"}},
		Limit:  "sending: a delivery to each partner",
		Breaks: apart,
		Source: "docs/performance.md, A dead partner: Redis, 503, below the limit, a fifth of five partners, both cores busy with other work; ingest: tidemill on Redis; a waiting job: Queues, bytes of a job; what is kept: go run ./bench sizes",
		Rows:   []string{`| tidemill redis | 406 |`, `| Redis, 503, below the limit | 155 | 261 | 518 | 1,410 |`, `| tidemill on Redis | 11,380 | 4.19 | 9.33 | 75.9 | 38.7 |`, `| delivery, Redis | 610 | 1,137 |  | 812 |`},
		Unknown: []string{
			"Redis' share of sending: it is in that of tidemill",
			"memory of the process: 1 GiB is what deploy gives it",
			"which purchase was sent to which partner, kept for 30 days (delivery.sent_life)",
			"the ledger of purchases in PostgreSQL",
		},
		QueueMax: "delivery.queue_max",
	},
}
