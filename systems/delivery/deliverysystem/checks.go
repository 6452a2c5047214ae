package deliverysystem

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// fullDoors are the queues of the endpoint that hold as many jobs as they may.
func fullEndpoints(ctx context.Context, queues queue.Inspector, most int) (full []string, err error) {
	for _, name := range delivery.EventQueues() {
		st, err := queues.Stats(ctx, name)
		if err != nil {
			return nil, err
		}
		if st.Waiting+st.Delayed+st.Leased >= int64(most) {
			full = append(full, name)
		}
	}
	return full, nil
}

// checkPartners says which queues are full, and which partners are switched off.
func checkPartners(ctx context.Context, sys *delivery.System, queues queue.Inspector, most int) (fs []preflight.Finding) {
	full, err := fullEndpoints(ctx, queues, most)
	if err != nil {
		return []preflight.Finding{system.Finding("queues", preflight.Warn, err.Error(), "")}
	}
	for _, name := range full {
		fs = append(fs, system.Finding("queue "+name, preflight.Fail, fmt.Sprintf("full: it holds %d jobs, and events are answered 503", most),
			"see why they are not routed (tidemill status), or raise delivery.queue_max"))
	}
	all, err := sys.Partners(ctx)
	if err != nil {
		return append(fs, system.Finding("partners", preflight.Warn, err.Error(), ""))
	}
	for i := range all {
		p := &all[i]
		name := "partner " + p.Partner
		switch {
		case !p.Off.IsZero():
			fs = append(fs, system.Finding(name, preflight.Fail, "switched off since "+p.Off.UTC().Format(time.RFC3339)+": it had failed since "+p.FailingSince.UTC().Format(time.RFC3339),
				"mend it, then: tidemill partner close "+p.Partner))
		case p.Full():
			fs = append(fs, system.Finding(name, preflight.Warn, fmt.Sprintf("its queue is full: %d jobs wait, %d may; %s", p.Depth(), p.Limit, beyond(p)),
				"mend the partner; or raise its queue.jobs, or remove what need not be delivered: tidemill queue remove "+delivery.QueueOf(p.Partner)))
		default:
			fs = append(fs, system.Finding(name, preflight.OK, fmt.Sprintf("%d jobs wait, %d may", p.Depth(), p.Limit), ""))
		}
	}
	return fs
}

// beyond says what becomes of the jobs for which there is no room.
func beyond(p *delivery.PartnerHealth) string {
	switch p.Policy {
	case partner.DeadLetter:
		return "newer ones become dead letters"
	case partner.DropOldest:
		return fmt.Sprintf("the oldest are dropped, %d so far by this instance", p.Dropped)
	}
	return fmt.Sprintf("%d more are parked", p.ParkedJobs())
}
