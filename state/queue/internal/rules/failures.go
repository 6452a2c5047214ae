package rules

import (
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// OwnHeader says whether a header is one that Add drops.
func OwnHeader(f tidemill.Field) bool { return string(f.Name) == queue.FailuresHeader }

// AppendFailures appends the headers that a job with these failures is handed out with.
func AppendFailures(to []tidemill.Field, failures []queue.Failure) []tidemill.Field {
	for _, f := range failures {
		to = append(to, tidemill.Field{Name: []byte(queue.FailuresHeader), Value: f.Append(nil)})
	}
	return to
}

// AddFailure returns the failures of a job with one more, at most MaxFailures. It changes none of
// those given.
func AddFailure(failures []queue.Failure, f queue.Failure) []queue.Failure {
	f.At, f.Cause = queue.Millis(f.At), queue.CutCause(f.Cause)
	return append(slices.Clone(failures[max(0, len(failures)+1-queue.MaxFailures):]), f)
}
