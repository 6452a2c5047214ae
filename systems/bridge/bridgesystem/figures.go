package bridgesystem

import "github.com/tidemill/tidemill/internal/plan"

// figures are what was measured, for tidemill plan. Each has the rows of the pages that it is from.
var figures = []plan.Figures{
	{
		Servers: []string{"redis", "mqtt"}, Size: 300, Rate: 15_689,
		CPU:     []plan.Cost{{At: plan.Own, Micros: 18.1}, {At: plan.Redis, Micros: 18.2}, {At: plan.Broker, Micros: 39.1}},
		Waits:   plan.Stored{At: plan.Redis, Bytes: 399, Of: 328},
		Limit:   "the receiver and its acknowledgements, which cost the broker twice what publishing does",
		Breaks:  "entries wait in the stream, as long as Redis has room; producers see its error",
		Unknown: []string{"memory of the process and of the broker; deploy gives them 1 GiB and 512 MiB"},
		Source:  "docs/performance.md, The bridge: a receiver that acknowledges in bulk, the slower run; bytes: go run ./bench sizes",
		Rows:    []string{`| a receiver that acknowledges in bulk | 15,689 and 20,387 | 13.5–18.1 | 15.5–18.2 | 32.7–39.1 |`, `| bridge, Redis | 328 | 399 |`},
	},
}
