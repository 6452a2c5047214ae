package memorydefinition_test

import (
	"testing"

	"github.com/tidemill/tidemill/state/definition/definitiontest"
	"github.com/tidemill/tidemill/state/definition/memorydefinition"
)

func TestConformance(t *testing.T) {
	definitiontest.Run(t, func(*testing.T) definitiontest.Harness {
		return definitiontest.Harness{Definitions: memorydefinition.New()}
	})
}
