package windowssystem

import "github.com/tidemill/tidemill/internal/plan"

// figures are what was measured, for tidemill plan. Each has the rows of the pages that it is from.
var figures = []plan.Figures{
	{
		Size: 840, Rate: 69_568, CPU: []plan.Cost{{At: plan.Own, Micros: 11.2 + 12}}, RSS: 434,
		Waits:    plan.Stored{At: plan.File, Bytes: 139, Of: 387},
		Kept:     []plan.Stored{{At: plan.File, Bytes: 1120, Of: 387, Days: 30, What: "the index (windows.search.keep, 30 days)"}},
		Limit:    "the one writer of the SQLite file",
		Breaks:   plan.Full,
		Unknown:  []string{"writing the index: it is in the bytes, and not in the cores"},
		Source:   "docs/performance.md, Windows: one file, store and then deliver; bytes: go run ./bench sizes",
		Rows:     []string{`| tidemill, one file: store | 157,158 | 11.2 | 0.03 | 0.17 | 395 |`, `| tidemill, one file: deliver | 124,824 | 12.0 | 0.07 | 0.25 | 434 |`, `| windows, one file | 387 | 139 | 1,120 |`},
		QueueMax: "windows.queue_max",
	},
	{
		Servers: []string{"redis", "kafka", "opensearch"}, Size: 840, Rate: 57_234, RSS: 288,
		CPU:    []plan.Cost{{At: plan.Own, Micros: 9.3 + 9.73}, {At: plan.Redis, Micros: 4.15 + 1.62}, {At: plan.Kafka, Micros: 2.54 + 3.02}},
		Waits:  plan.Stored{At: plan.Redis, Bytes: 206, Of: 387},
		Limit:  "the processors, two cores that all shared; after them the number of partitions",
		Breaks: "records wait in their topics, as long as these keep them",
		Unknown: []string{
			"OpenSearch: its cores, memory and disk, and the index's share of tidemill", "Kafka's memory and disk, which are what its topics keep",
		},
		Source: "docs/performance.md, Windows: store and then deliver; bytes: go run ./bench sizes, windows, Redis",
		Rows:   []string{`| tidemill, kafka + redis: store | 113,184 | 9.30 | 4.15 | 2.54 | 288 |`, `| tidemill, kafka + redis: deliver | 115,780 | 9.73 | 1.62 | 3.02 | 259 |`, `| windows, Redis | 387 | 206 |`},
	},
}
