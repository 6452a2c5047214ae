package windowssystem

import "github.com/tidemill/tidemill/internal/plan"

// figures are what was measured, for tidemill plan. Each has the rows of the pages that it is from.
var figures = []plan.Figures{
	{
		Size: 840, Rate: 17_465, CPU: []plan.Cost{{At: plan.Own, Micros: 17.9 + 15.2}}, RSS: 358,
		Waits:    plan.Stored{At: plan.File, Bytes: 141, Of: 387},
		Kept:     []plan.Stored{{At: plan.File, Bytes: 1122, Of: 387, Days: 30, What: "the index (windows.search.keep, 30 days)"}},
		Limit:    "the one writer of the SQLite file",
		Breaks:   plan.Full,
		Unknown:  []string{"writing the index: it is in the bytes, and not in the cores"},
		Source:   "bench/README.md, Windows: one file, store and then deliver, beside other work; bytes: go run ./bench sizes",
		Rows:     []string{`| tidemill, one file: store | 10.7 | 31,000 | 17.9 | | | 310 |`, `| tidemill, one file: deliver | 8.9 | 40,000 | 15.2 | | | 358 |`, `| windows, one file | 387 | 141 | 1,122 |`},
		QueueMax: "windows.queue_max",
	},
	{
		Servers: []string{"redis", "kafka", "opensearch"}, Size: 840, Rate: 68_880, RSS: 251,
		CPU:    []plan.Cost{{At: plan.Own, Micros: 6.6 + 8.0}, {At: plan.Redis, Micros: 3.1 + 1.5}, {At: plan.Kafka, Micros: 2.1 + 3.9}},
		Waits:  plan.Stored{At: plan.Redis, Bytes: 206, Of: 387},
		Limit:  "the processors, two cores that all shared; after them the number of partitions",
		Breaks: "records wait in their topics, as long as these keep them",
		Unknown: []string{
			"OpenSearch: its cores, memory and disk, and the index's share of tidemill", "Kafka's memory and disk, which are what its topics keep",
		},
		Source: "docs/performance.md, Windows: store and then deliver; bytes: go run ./bench sizes, windows, Redis",
		Rows:   []string{`| **store** | 1.94 | 153,909 | 6.6 | 3.1 | 2.1 | 251 |`, `| **deliver** | 2.41 | 124,680 | 8.0 | 1.5 | 3.9 | 236 |`, `| windows, Redis | 387 | 206 |`},
	},
}
