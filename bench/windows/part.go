package windows

import (
	"flag"

	"github.com/tidemill/tidemill/bench/process"
)

// part is what a contender's process does.
type part struct {
	What     string // store, deliver or both
	Records  int
	Kafka    string // host:port; empty: embedded
	Redis    string
	In, Out  string // before the names of topics
	Group    string // of consumers
	Whole    bool   // a window is one transaction
	Many     bool   // a limit that writes several records by one command
	Folder   string // where files are
	Page     int    // records of a window in memory at a time; 0: the default
	Together int    // records stored together; 0: the default
	Memory   int    // MiB at which garbage is collected more often; 0: the default

	process.Talk
}

// report is a contender's report at the end.
type report struct {
	Stored    int    `json:"stored"`    // records that are in the store, by its own count
	Delivered int    `json:"delivered"` // records that were sent
	Failed    string `json:"failed,omitempty"`
}

func (p *part) flags(f *flag.FlagSet) {
	f.IntVar(&p.Records, "records", 300_000, "")
	f.StringVar(&p.Kafka, "kafka", "", "")
	f.StringVar(&p.Redis, "redis", "", "")
	f.StringVar(&p.In, "in", "", "")
	f.StringVar(&p.Out, "out", "", "")
	f.StringVar(&p.Group, "group", "", "")
	f.BoolVar(&p.Whole, "whole", false, "")
	f.BoolVar(&p.Many, "many", false, "")
	f.StringVar(&p.Folder, "folder", "", "")
	f.StringVar(&p.Profile, "profile", "", "")
	f.IntVar(&p.Page, "page", 0, "")
	f.IntVar(&p.Together, "together", 0, "")
	f.IntVar(&p.Memory, "memory", 0, "")
}

// Topics, in and out.
const (
	event   = "-event"
	mention = "-mention"
)
