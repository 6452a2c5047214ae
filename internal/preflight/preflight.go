// Package preflight has the words for checks of a server before events are entrusted to it:
// each setting that could lose acknowledged events is read, and found fit, doubtful or unfit.
// Connections (redisconn, postgresdb, …) make findings. The command doctor and the start of a
// process show them, and strict mode refuses to run with one that fails.
package preflight

// Verdicts.
const (
	OK   = "ok"
	Warn = "warn" // works, but not as well or as surely as it could
	Fail = "fail" // acknowledged events can be lost, or nothing works: strict mode refuses
)

// Finding is the result of one check.
type Finding struct {
	Check   string `json:"check"`            // what was checked: "redis: appendonly"
	Verdict string `json:"verdict"`          // ok, warn or fail
	Detail  string `json:"detail"`           // what was found
	Advice  string `json:"advice,omitempty"` // what to do, if anything
}
