package admin_test

import (
	"testing"

	"github.com/tidemill/tidemill"
)

// TestOneThingHoldsUpNoOther starts discards that wait for their time: of single dead letters beside
// each other and beside one of all, but not the same one twice.
func TestOneThingHoldsUpNoOther(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		d.dies("p", "shop", tidemill.Timeout, 0, 3)
		for _, one := range []string{"pipeline=p&seq=1", "pipeline=p&seq=2", "pipeline=p&id=p2", "pipeline=p"} {
			d.start("what=dead.delete&expect_at_most=3&" + one)
		}
		for _, again := range []string{"pipeline=p&seq=1", "pipeline=p&id=p2", "pipeline=p"} {
			refused(d.T, d.starting("what=dead.delete&expect_at_most=3&"+again), 409, "operation ")
		}
	})
}
