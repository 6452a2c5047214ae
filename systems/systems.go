// Package systems has the systems of Tidemill. A system is a folder here and a line in All; nothing
// else names one.
package systems

import (
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/systems/analytics/analyticssystem"
	"github.com/tidemill/tidemill/systems/bridge/bridgesystem"
	"github.com/tidemill/tidemill/systems/crm/crmsystem"
	"github.com/tidemill/tidemill/systems/delivery/deliverysystem"
	"github.com/tidemill/tidemill/systems/windows/windowssystem"
)

// All are the systems that tidemill can run.
func All() system.Table {
	return system.Table{analyticssystem.System, bridgesystem.System, deliverysystem.System, crmsystem.System, windowssystem.System}
}
