package redisqueue

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// readFailures reads a job's failed tries as scripts keep them (see failure in common.lua):
// "count;" and for each "ms kind length cause". It leaves out what it cannot read.
func readFailures(text string) []queue.Failure {
	_, text, _ = strings.Cut(text, ";")
	var all []queue.Failure
	for text != "" {
		f := strings.SplitN(text, " ", 4)
		if len(f) < 4 {
			return all
		}
		ms, err1 := strconv.ParseInt(f[0], 10, 64)
		n, err2 := strconv.Atoi(f[2])
		if err1 != nil || err2 != nil || n < 0 || n > len(f[3]) {
			return all
		}
		kind, err := tidemill.ParseKind(f[1])
		if err != nil {
			kind = tidemill.NoKind
		}
		all = append(all, queue.Failure{At: time.UnixMilli(ms).UTC(), Kind: kind, Cause: f[3][:n]})
		text = f[3][n:]
	}
	return all
}

// failureText is the script's form of a failed try: its kind and the kept part of its cause.
func failureText(e *tidemill.Settlement) string {
	return e.Kind.String() + " " + strconv.Itoa(len(queue.CutCause(e.Cause)))
}
