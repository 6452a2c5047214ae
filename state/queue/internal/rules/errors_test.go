package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

func TestWhatIsNoEndIsRefused(t *testing.T) {
	good := &tidemill.Message{ID: "1", To: "q"}
	for _, c := range []struct {
		why string
		err error
		bad bool
	}{
		{"an end", CheckEnd(&tidemill.Settlement{Fate: tidemill.Delivered}), false},
		{"an end without a fate", CheckEnd(&tidemill.Settlement{}), true},
		{"one that is no end needs none", CheckEnd(&tidemill.Settlement{End: tidemill.Again}), false},
		{"an end of many", CheckEnd(&tidemill.Settlement{Records: tidemill.Count{Skipped: 1}}), false},
		{"with jobs that follow", CheckEnd(&tidemill.Settlement{Fate: tidemill.Delivered, Next: []*tidemill.Message{good}}), false},
		{"with one that is none", CheckEnd(&tidemill.Settlement{Fate: tidemill.Delivered, Next: []*tidemill.Message{good, {}}}), true},
	} {
		if (c.err != nil) != c.bad {
			t.Errorf("%s: %v", c.why, c.err)
		}
	}
}

// The texts of a store's errors, and their kinds.
func TestErrorsOfStores(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind tidemill.Kind
		is   error
		says string
	}{
		{Refused(queue.Full, "q"), tidemill.RateLimit, nil, "full"}, {Refused(queue.Closed, "q"), tidemill.RateLimit, queue.ErrClosed, `"q"`},
		{NotEmpty("q"), tidemill.Validation, nil, "holds jobs"}, {NoQueue(), tidemill.Validation, nil, "filter"}, {NotOrdered("q"), tidemill.Validation, nil, "switched off"},
	} {
		if tidemill.KindOf(c.err) != c.kind || c.is != nil && !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%v is of kind %v; want %v, %v and %q", c.err, tidemill.KindOf(c.err), c.kind, c.is, c.says)
		}
	}
	if err := errors.Join(Refused(queue.New, "q"), Refused(queue.Known, "q")); err != nil {
		t.Errorf("what was taken is refused: %v", err)
	}
}
