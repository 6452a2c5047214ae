package memorywarehouse_test

import (
	"testing"

	"github.com/tidemill/tidemill/systems/analytics/warehouse/memorywarehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/warehousetest"
)

func TestConformance(t *testing.T) {
	warehousetest.Run(t, func(*testing.T) warehousetest.Harness {
		return warehousetest.Harness{Store: memorywarehouse.New()}
	})
}
