package plan

// Figures are what was measured of a system on a set of servers, on the machine of
// docs/performance.md: 2 cores, which load, servers and kernel share.
type Figures struct {
	Servers []string // none: one file

	Size float64 // bytes of the events that were measured
	Rate float64 // events a second that were reached
	CPU  []Cost
	RSS  float64 // MiB, the most of our process; 0: not known

	Waits Stored   // where an event waits
	Kept  []Stored // what stays of it

	PerPartner bool    // rate and own cost are of a delivery, one for each partner of an event
	Ingest     float64 // then: own cost of an event beside its deliveries, in µs

	Limit    string   // what is at its limit first, as far as it was seen
	Breaks   string   // what happens where more comes than that
	QueueMax string   // the setting of how many may wait, 10,000,000 by default; empty: none
	Set      []string // settings that it was measured with, and that are not their defaults
	Unknown  []string // what was not measured
	Source   string   // pages, rows and commands
	Rows     []string // of the pages, as they are written there
}

// Cost is processor time of a process, in µs an event.
type Cost struct {
	At     string
	Micros float64
}

// Stored is what an event takes somewhere.
type Stored struct {
	At    string
	Bytes float64 // an event
	Of    float64 // bytes of the events that were measured; 0: it does not depend on them
	Days  float64 // how long; 0: as long as Asked.Keep
	What  string
}

// Names of processes, and of what holds events.
const (
	Own        = "tidemill"
	Redis      = "Redis"
	PostgreSQL = "PostgreSQL"
	ClickHouse = "ClickHouse"
	Kafka      = "Kafka"
	Broker     = "MQTT broker"
	File       = "file"
)

// Full is what happens to most systems where more comes than they can do.
const Full = "events wait; where more wait than queue_max allows, or the disk or Redis is full, senders are answered 503 and send again, and nothing that was accepted is lost"

// queueMax is how many events may wait, by default.
const queueMax = 10_000_000
