package deliveryapi

import (
	"slices"
	"strings"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
)

// Letters says which dead letters are those of delivery: of its partners, and of events that could not
// be routed.
var Letters = admin.Owner{
	Owns: func(pipeline string) bool {
		return partnerOf(pipeline) != "" || slices.Contains(delivery.EventQueues(), pipeline)
	},
	Label: func(l *deadletter.Letter, shown *api.DeadLetter) { shown.Partner = partnerOf(l.Pipeline) },
	Partners: func(c *config.Loaded) (names []string) {
		for _, p := range deliveryconfig.Of(c).Partners {
			names = append(names, p.Name)
		}
		return names
	},
	Queue:   delivery.QueueOf,
	Partner: partnerOf,
}

// partnerOf is whose pipeline it is; empty: no partner's.
func partnerOf(pipeline string) string {
	partner, _ := strings.CutPrefix(pipeline, delivery.QueueOf(""))
	if partner == pipeline {
		return ""
	}
	return partner
}
