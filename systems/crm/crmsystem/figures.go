package crmsystem

import "github.com/tidemill/tidemill/internal/plan"

// rates are limits that the measured system did not have.
const rates = "crm.per_second: 0 and crm.tenant_per_second: 0, or what your receivers bear: the defaults are 100 and 50 events a second"

// figures are what was measured, for tidemill plan. Each has the rows of the pages that it is from.
var figures = []plan.Figures{
	{
		Size: 483, Rate: 10_634, CPU: []plan.Cost{{At: plan.Own, Micros: 124}}, RSS: 374,
		Waits:  plan.Stored{At: plan.File, Bytes: 577, Of: 462},
		Kept:   []plan.Stored{{At: plan.File, Bytes: 835, Of: 462, Days: 90, What: "the sync log (crm.log_life, 90 days) and profiles"}},
		Limit:  "the one writer of the SQLite file",
		Breaks: plan.Full,
		Set:    []string{rates},
		Unknown: []string{
			"taking in over HTTP", "what your handlers need: those that were measured did nothing",
		},
		Source:   "docs/performance.md, CRM: in one file, 10 workers; bytes: go run ./bench sizes",
		Rows:     []string{`| tidemill sqlite: process, 10 workers | 10,634 | 124 |  |  | 374 |`, `| crm, one file | 462 | 577 | 835 |`},
		QueueMax: "crm.queue_max",
	},
	{
		Servers: []string{"redis", "postgres"}, Size: 483, Rate: 9_704, RSS: 256,
		CPU:    []plan.Cost{{At: plan.Own, Micros: 65.6}, {At: plan.Redis, Micros: 35.3}, {At: plan.PostgreSQL, Micros: 89.9}},
		Waits:  plan.Stored{At: plan.Redis, Bytes: 721, Of: 462},
		Kept:   []plan.Stored{{At: plan.PostgreSQL, Bytes: 1962, Of: 462, Days: 90, What: "the sync log (crm.log_life, 90 days) and profiles"}, {At: plan.Redis, Bytes: 37, Days: 1, What: "ids of events, by which those sent again are known"}},
		Limit:  "PostgreSQL, with the two cores that all shared",
		Breaks: plan.Full,
		Set:    []string{rates},
		Unknown: []string{
			"taking in over HTTP", "what your handlers need: those that were measured did nothing", "memory of PostgreSQL: 1 GiB is what deploy gives it",
		},
		Source:   "docs/performance.md, CRM: on Redis and PostgreSQL, 10 workers, new members; bytes: go run ./bench sizes",
		Rows:     []string{`| tidemill redis + postgres: process, 10 workers, new members | 9,704 | 65.6 | 35.3 | 89.9 | 256 |`, `| crm, Redis, PostgreSQL | 462 | 721 |  | 37.0 | 1,962 |`},
		QueueMax: "crm.queue_max",
	},
}
