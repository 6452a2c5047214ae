package crm

import (
	"flag"

	"github.com/tidemill/tidemill/bench/process"
)

// part is what a contender's process does. BullMQ's program, which bench/queue has too, takes
// the same flags and prints the same reports.
type part struct {
	What     string // add: bring events; process: work on a full queue
	Jobs     int
	Workers  int
	Batch    int    // events that the product takes together; 0: its default
	Ahead    int    // least events that it holds; 0: its default
	Many     int    // events of one call of its handler
	Fresh    bool   // no event has a profile before
	Redis    string // host:port
	Postgres string // URL
	Folder   string // where files are

	process.Talk
}

// report is a contender's report at the end.
type report struct {
	Done      int    `json:"done"`            // events that were handled, each once
	Twice     int    `json:"twice,omitempty"` // and how many more often than once
	Held      int64  `json:"held"`            // events that the queue still has, by its own count
	Completed int    `json:"completed"`       // events completed in the sync log, begun once each; -1: no sync log
	Failed    string `json:"failed,omitempty"`
}

func (p *part) flags(f *flag.FlagSet) {
	f.IntVar(&p.Jobs, "jobs", 50_000, "")
	f.IntVar(&p.Workers, "workers", 10, "")
	f.IntVar(&p.Batch, "batch", 0, "")
	f.IntVar(&p.Ahead, "ahead", 0, "")
	f.IntVar(&p.Many, "many", 1, "")
	f.BoolVar(&p.Fresh, "fresh", false, "")
	f.StringVar(&p.Redis, "redis", "", "")
	f.StringVar(&p.Postgres, "postgres", "", "")
	f.StringVar(&p.Folder, "folder", "", "")
	f.StringVar(&p.Profile, "profile", "", "")
}
