package deadletter_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// books are what somebody says that his books are.
type books struct {
	say tidemill.Books
	err error
}

func (b books) Books(context.Context) (tidemill.Books, error) { return b.say, b.err }

func TestTheAuditSaysWhatDoesNotAddUp(t *testing.T) {
	sound := tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 1, Dead: 1}, Pending: 1}
	letters := tidemill.Books{Accepted: 1, Pending: 1}
	with := func(b tidemill.Books, change func(*tidemill.Books)) tidemill.Books { change(&b); return b }
	for _, c := range []struct {
		source, letters tidemill.Books
		want            string
	}{
		{sound, letters, ""},
		{with(sound, func(b *tidemill.Books) { b.Accepted++ }), letters, "1 jobs are missing"},
		{with(sound, func(b *tidemill.Books) { b.Pending++ }), letters, "1 jobs were counted twice"},
		{with(sound, func(b *tidemill.Books) { b.Accepted++; b.Lost++ }), letters, "1 jobs were lost at the source"},
		{sound, with(letters, func(b *tidemill.Books) { b.Accepted++ }), "by 1"},
		{sound, with(letters, func(b *tidemill.Books) { b.Pending++ }), "by -1"},
	} {
		a, faults, err := deadletter.AuditOf(t.Context(), books{say: c.source}, books{say: c.letters}, "jobs")
		said := strings.Join(faults, "; ")
		if err != nil || (said == "") != (c.want == "") || len(faults) > 1 || !strings.Contains(said, c.want) || a.Accepted != c.source.Accepted || a.Letters.Put != c.letters.Accepted {
			t.Errorf("%+v beside %+v: %+v, %q, %v; want %q", c.source, c.letters, a, said, err, c.want)
		}
	}
	broken := errors.New("broken")
	for _, b := range [][2]books{{{err: broken}, {}}, {{}, {err: broken}}} {
		if _, _, err := deadletter.AuditOf(t.Context(), b[0], b[1], "jobs"); !errors.Is(err, broken) {
			t.Errorf("books that cannot be read: %v", err)
		}
	}
}
