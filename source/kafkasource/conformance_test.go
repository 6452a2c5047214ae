package kafkasource_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/kafkasource"
	"github.com/tidemill/tidemill/source/sourcetest"
)

// One partition, so that there is one order. Members have names, as servers that are
// restarted in place have, so that a start after a kill need not wait for the session of
// the dead one to end.
func TestSource(t *testing.T) {
	brokers, soon := brokers(t), 300*time.Millisecond
	if testenv.Enabled(t) {
		soon = 1500 * time.Millisecond
	}
	sourcetest.RunLive(t, 1, func(t *testing.T) sourcetest.Harness {
		w := newWorld(t, brokers, 1)
		opened := 0
		return sourcetest.Harness{
			Accept: w.add,
			Open: func() tidemill.Source {
				opened++
				return w.source(kafkasource.Options{Instance: strconv.Itoa(opened)})
			},
			Kill:  func() { w.each((*kafkasource.Source).Kill); opened = 0 },
			Keeps: sourcetest.AllFields,
			Owned: true,
			Soon:  soon,
		}
	})
}
