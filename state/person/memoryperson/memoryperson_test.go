package memoryperson

import (
	"testing"

	"github.com/tidemill/tidemill/state/person/persontest"
)

func TestConformance(t *testing.T) {
	persontest.Run(t, func(*testing.T) persontest.Harness { return persontest.Harness{Store: New(Options{})} })
}
