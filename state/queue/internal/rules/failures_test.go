package rules

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// Headers of failures are made by a store alone.
func TestHeadersOfFailures(t *testing.T) {
	f := []queue.Failure{{At: time.UnixMilli(1).UTC(), Kind: tidemill.Timeout, Cause: "a"}, {At: time.UnixMilli(2).UTC(), Kind: tidemill.Partner, Cause: "b"}}
	header := AppendFailures([]tidemill.Field{{Name: []byte("n"), Value: f[0].Append(nil)}}, f)
	if got := queue.FailuresOf(&tidemill.Message{Header: header}); !slices.Equal(got, f) {
		t.Errorf("failures are %+v, want %+v", got, f)
	}
	if header = slices.DeleteFunc(header, OwnHeader); len(header) != 1 {
		t.Errorf("without them the headers are %q, want one", header)
	}
}

func TestTheNewestFailuresAreKept(t *testing.T) {
	var all []queue.Failure
	at := time.UnixMilli(1_700_000_000_000).Add(300 * time.Microsecond)
	for i := range queue.MaxFailures + 3 {
		was := slices.Clone(all)
		more := AddFailure(all, queue.Failure{At: at.Add(time.Duration(i) * time.Second), Kind: tidemill.Timeout, Cause: strings.Repeat("x", 2*queue.MaxFailure)})
		if !slices.Equal(all, was) {
			t.Fatal("failures were changed by one that was added")
		}
		all = more
	}
	if len(all) != queue.MaxFailures || !all[0].At.Equal(time.UnixMilli(1_700_000_003_000)) || len(all[0].Cause) != queue.MaxFailure {
		t.Errorf("%d failures are kept, the first %v with %d bytes", len(all), all[0].At, len(all[0].Cause))
	}
}
