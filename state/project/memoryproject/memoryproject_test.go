package memoryproject_test

import (
	"testing"

	"github.com/tidemill/tidemill/state/project/memoryproject"
	"github.com/tidemill/tidemill/state/project/projecttest"
)

func TestConformance(t *testing.T) {
	projecttest.Run(t, func(*testing.T) projecttest.Harness {
		return projecttest.Harness{Projects: memoryproject.New()}
	})
}
