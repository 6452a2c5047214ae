package deadletter_test

import (
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

func TestEveryKindHasOneOfTheFourReasons(t *testing.T) {
	want := map[tidemill.Kind]deadletter.Reason{
		tidemill.NoKind: deadletter.PartnerError, tidemill.Validation: deadletter.Validation, tidemill.NotFound: deadletter.Validation,
		tidemill.Business: deadletter.Validation, tidemill.Timeout: deadletter.Timeout, tidemill.RateLimit: deadletter.RateLimit,
		tidemill.Partner: deadletter.PartnerError, tidemill.Credentials: deadletter.PartnerError, tidemill.Transient: deadletter.PartnerError,
		tidemill.Internal: deadletter.PartnerError, tidemill.Unknown: deadletter.Unknown,
	}
	named := map[tidemill.Kind]int{}
	for _, r := range deadletter.Reasons() {
		for _, k := range r.Kinds() {
			if named[k]++; want[k] != r {
				t.Errorf("%v is a %s, want %s", k, r, want[k])
			}
		}
		if got, err := deadletter.ParseReason(string(r)); got != r || err != nil {
			t.Errorf("ParseReason(%q) = %q, %v", r, got, err)
		}
	}
	for k := range want {
		if named[k] != 1 {
			t.Errorf("%v is named by %d reasons", k, named[k])
		}
	}
	for k := tidemill.Kind(0); k < 64; k++ { // a kind that is added has to be thought of here
		if _, err := tidemill.ParseKind(k.String()); err == nil && named[k] != 1 {
			t.Errorf("%v has no reason", k)
		}
	}
	if _, err := deadletter.ParseReason("late"); err == nil {
		t.Error("a reason that there is not was read")
	}
}
