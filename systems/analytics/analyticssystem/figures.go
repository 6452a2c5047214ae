package analyticssystem

import "github.com/tidemill/tidemill/internal/plan"

// figures are what was measured, for tidemill plan. Each has the rows of the pages that it is from.
var figures = []plan.Figures{
	{
		Size: 775, Rate: 31_414, CPU: []plan.Cost{{At: plan.Own, Micros: 46.5}}, RSS: 528,
		Waits:    plan.Stored{At: plan.File, Bytes: 812, Of: 573},
		Kept:     []plan.Stored{{At: plan.File, Bytes: 647, Of: 573, What: "events, persons and definitions"}},
		Limit:    "the one writer of the SQLite file, 70% busy at the rate that was measured",
		Breaks:   plan.Full,
		Source:   "docs/performance.md, Analytics, embedded: HTTP → warehouse; bytes: go run ./bench sizes, analytics, one file",
		Rows:     []string{`| HTTP → warehouse, whole way | 31,414 | 46.5 | 528 |`, `| analytics, one file | 573 | 812 | 647 |`},
		QueueMax: "analytics.queue_max",
	},
	{
		Servers: []string{"redis", "postgres", "clickhouse"}, Size: 1100, Rate: 16_131, RSS: 275,
		CPU:    []plan.Cost{{At: plan.Own, Micros: 32.7}, {At: plan.Redis, Micros: 35.3}, {At: plan.PostgreSQL, Micros: 6.85}, {At: plan.ClickHouse, Micros: 25.6}},
		Waits:  plan.Stored{At: plan.Redis, Bytes: 855, Of: 573},
		Kept:   []plan.Stored{{At: plan.ClickHouse, Bytes: 89.9, Of: 573, What: "events; how well they compress depends on them"}, {At: plan.Redis, Bytes: 17.9, Days: 1, What: "ids of events, by which those sent again are known"}},
		Limit:  "Redis, which uses one core",
		Breaks: plan.Full,
		Unknown: []string{
			"taking in over HTTP: the entries were written by another producer, whose share is in Redis' figure",
			"memory of PostgreSQL and ClickHouse; deploy/compose gives them 1 GiB and 4 GiB",
			"PostgreSQL's disk grows with persons, not with events: 435 bytes each were measured",
		},
		Source:   "docs/performance.md, Analytics, on Redis, PostgreSQL and ClickHouse: while it is being filled; remembered ids: Parts, Redis source; bytes: go run ./bench sizes",
		Rows:     []string{`| the same, while it is being filled | 16,131 | 32.7 | 35.3 | 6.85 | 25.6 | 275 |`, `one million remembered ids take 17.9 MB`, `| analytics, Redis, PostgreSQL, ClickHouse | 573 | 855 |  | 73.2 | 86.3 | 89.9 |`},
		QueueMax: "analytics.queue_max",
	},
}
