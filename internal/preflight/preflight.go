// Package preflight has the words in which a neighbour is judged before events are
// entrusted to it: each setting that could cost acknowledged events is read, and found
// fit, doubtful or unfit. Connections (redisconn, postgresdb, …) make findings; doctor and
// the start of a process show them, and strict mode refuses to run with one that fails.
package preflight

// Verdicts.
const (
	OK   = "ok"
	Warn = "warn" // works, but not as well or as surely as it could
	Fail = "fail" // acknowledged events can be lost, or nothing works: strict mode refuses
)

// Finding is one thing that was looked at.
type Finding struct {
	Check   string `json:"check"`            // what was looked at: "redis: appendonly"
	Verdict string `json:"verdict"`          // ok, warn or fail
	Detail  string `json:"detail"`           // what was found
	Advice  string `json:"advice,omitempty"` // what to do, if anything
}
