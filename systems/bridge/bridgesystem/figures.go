package bridgesystem

import "github.com/tidemill/tidemill/internal/plan"

// figures are what was measured, for tidemill plan. Each has the rows of the pages that it is from.
var figures = []plan.Figures{
	{
		Servers: []string{"redis", "mqtt"}, Size: 300, Rate: 10_938, RSS: 169,
		CPU:     []plan.Cost{{At: plan.Own, Micros: 28.8}, {At: plan.Redis, Micros: 24.1}, {At: plan.Broker, Micros: 56.7}},
		Waits:   plan.Stored{At: plan.Redis, Bytes: 390, Of: 328},
		Limit:   "the receiver and its acknowledgements, which cost the broker twice what publishing does",
		Breaks:  "entries wait in the stream, as long as Redis has room; producers see its error",
		Unknown: []string{"memory of the broker: 512 MiB is what deploy gives it"},
		Source:  "docs/performance.md, The bridge: a receiver that acks in bulk; bytes: go run ./bench sizes",
		Rows:    []string{`| tidemill, receiver acks in bulk | 10,938 | 28.8 | 24.1 | 56.7 | 46.4 | 169 |`, `| bridge, Redis | 328 | 390 |`},
	},
}
