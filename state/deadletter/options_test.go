package deadletter_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/deadletter"
)

func TestDefaultsOfAStore(t *testing.T) {
	o, err := deadletter.Options{}.WithDefaults()
	if err != nil || o.Max != 100_000 || o.Lease != 30*time.Second || o.Now == nil || o.Trim {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = deadletter.Options{Max: 1, Lease: 1, Now: func() time.Time { return noon }}.WithDefaults()
	if err != nil || o.Max != 1 || o.Lease != 3*time.Millisecond || !o.Now().Equal(noon) {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []deadletter.Options{{Max: -1}, {Lease: -1}} {
		if _, err := bad.WithDefaults(); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
