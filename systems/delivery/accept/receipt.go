package accept

import (
	"context"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
)

// Receipt is what is known of how an event, or the first event of an order, came in.
type Receipt struct {
	Site string
	Job  string    // the event's name in its queue; of a duplicate: that of the event it repeats. Empty: it is being accepted
	At   time.Time // when it first came
	Many int       // how often it was begun: more than once where it was sent again
}

// Event finds an event by its id in some sites, as long as its id is known (Options.Keep).
func (a *Acceptor) Event(ctx context.Context, id string, sites []string) ([]Receipt, error) {
	return a.receipts(ctx, "event", id, sites)
}

// Order finds the first event of an order in some sites, as long as the order is known
// (Options.Keep).
func (a *Acceptor) Order(ctx context.Context, order string, sites []string) ([]Receipt, error) {
	return a.receipts(ctx, "order", order, sites)
}

// Keep is how long events and orders are known.
func (a *Acceptor) Keep() time.Duration { return a.o.Keep }

func (a *Acceptor) receipts(ctx context.Context, what, id string, sites []string) (found []Receipt, err error) {
	es := make([]*ledger.Entry, 0, len(sites))
	for _, site := range sites {
		if key := name(what, site, id); len(key) <= ledger.MaxKey {
			es = append(es, &ledger.Entry{Key: key, Tenant: site})
		}
	}
	if len(es) == 0 {
		return nil, nil
	}
	if err := a.all.Find(ctx, es); err != nil {
		return nil, err
	}
	for _, e := range es {
		if e.State != 0 {
			found = append(found, Receipt{Site: e.Tenant, Job: string(e.Result), At: e.Created, Many: e.Tries})
		}
	}
	return found, nil
}
