package queue_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/queue"
)

// What is switched off does not go on because a pause was set to end.
func TestTheEndOfAPause(t *testing.T) {
	for _, off := range []time.Time{{}, time.UnixMilli(1)} {
		s := queue.Settings{Paused: true, PausedUntil: time.UnixMilli(2), Off: off}
		if s.EndPause(); s.Paused == off.IsZero() || !s.PausedUntil.IsZero() || !s.Off.Equal(off) {
			t.Errorf("off since %v: %+v", off, s)
		}
	}
}
