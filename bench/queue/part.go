package queue

import (
	"errors"
	"flag"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
)

// part is what a contender's process does: one phase of one queue. The peers' programs take the
// same flags and print the same reports.
type part struct {
	What    string // add, single, process, latency, fair
	Jobs    int
	Workers int
	Rate    float64 // latency: jobs a second
	Seconds float64 // latency: for how long
	Redis   string  // host:port
	Folder  string  // SQLite: where its file is
	Limits  bool    // limits for each tenant that hold nothing back

	process.Talk
}

// report is a contender's report at the end.
type report struct {
	Done   int     `json:"done"`              // jobs that were handled, each once
	Twice  int     `json:"twice,omitempty"`   // and how many more often than once
	Held   int64   `json:"held"`              // jobs that the queue still has, by its own count
	Late   []int64 `json:"late_us,omitempty"` // latency: of each job, from the call that added it until its handler began
	Fair   float64 `json:"fairness,omitempty"`
	Size   int64   `json:"file_bytes,omitempty"`
	Failed string  `json:"failed,omitempty"`
}

func (p *part) flags(f *flag.FlagSet) {
	f.IntVar(&p.Jobs, "jobs", 100_000, "")
	f.IntVar(&p.Workers, "workers", 100, "")
	f.Float64Var(&p.Rate, "rate", 1000, "")
	f.Float64Var(&p.Seconds, "seconds", 4, "")
	f.StringVar(&p.Redis, "redis", "", "")
	f.StringVar(&p.Folder, "folder", "", "")
	f.BoolVar(&p.Limits, "limits", false, "")
	f.StringVar(&p.Profile, "profile", "", "")
}

// begin and end enclose the measurement. The profile covers the whole phase, preparation
// included.
func (p *part) begin() { p.Say("begin") }
func (p *part) end()   { p.Say("end") }

// bulks adds jobs in calls of 1,000, by two callers.
func bulks(jobs []*tidemill.Message, add func([]*tidemill.Message) error) error {
	return process.Each(2, slices.Collect(slices.Chunk(jobs, 1000)), add)
}

// singles adds jobs one a call, 50 in flight.
func singles(jobs []*tidemill.Message, add func([]*tidemill.Message) error) error {
	return process.Each(50, slices.Collect(slices.Chunk(jobs, 1)), add)
}

// offered is an open load: each job is added when it is due, even while others wait for an
// answer.
type offered struct {
	jobs []*tidemill.Message
	sent []time.Time
	late []int64 // µs
}

func offer(n int, queue string) *offered {
	return &offered{jobs: newEvents().take(queue, n), sent: make([]time.Time, n), late: make([]int64, n)}
}

// add adds all at a rate, and returns when all are added.
func (o *offered) add(rate float64, add func([]*tidemill.Message) error) error {
	var wait sync.WaitGroup
	errs := make([]error, len(o.jobs))
	start := time.Now()
	for i := range o.jobs {
		time.Sleep(time.Until(start.Add(time.Duration(float64(i) / rate * float64(time.Second)))))
		o.sent[i] = time.Now()
		wait.Go(func() { errs[i] = add(o.jobs[i : i+1]) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// began is told of each job when its handler begins.
func (o *offered) began(i int) { o.late[i] = time.Since(o.sent[i]).Microseconds() }

// settled leaves out the first tenth: connections are made, code and caches get warm.
func (o *offered) settled() []int64 { return o.late[len(o.late)/10:] }
