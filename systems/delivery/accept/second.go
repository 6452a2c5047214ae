package accept

import "github.com/tidemill/tidemill/state/ledger"

// second names the entries that follow from the first ones: one for id and time together, where
// an id has another time, and those of orders, which hold the name of the job that was to be
// queued first for the order.
func (p *plan) second() (cs []*claim) {
	for i := range p.items {
		it := &p.items[i]
		if it.fate != fresh {
			continue
		}
		before := len(p.claims)
		if it.apart {
			n := len(p.claims)
			if it.id = p.claim(name("event.apart", p.r.Site, it.job), it.hash[:]); it.oldApart && n < len(p.claims) {
				it.id.Payload = old
			}
		}
		if e := &p.r.Items[i].Event; e.Order != "" {
			n := len(p.claims)
			if it.order = p.claim(name("order", p.r.Site, e.Order), nil); n < len(p.claims) {
				it.order.Payload = []byte(it.job)
			}
		}
		cs = append(cs, p.claims[before:]...)
	}
	return cs
}

// decideSecond is decide for the second entries.
func (p *plan) decideSecond() error {
	for i := range p.items {
		it := &p.items[i]
		if it.fate != fresh {
			continue
		}
		if it.apart {
			if err := p.decideApart(i); err != nil {
				return err
			}
		}
		if it.order != nil && it.fate == fresh {
			if err := p.decideOrder(i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *plan) decideApart(i int) error {
	switch c := p.items[i].id; {
	case c.State == ledger.Done:
		p.repeat(i, string(c.Result))
	case c.State != ledger.Fresh:
		return ErrRunning
	case c.by != nobody:
		p.repeat(i, p.items[c.by].job)
	case len(c.Payload) > 0:
		p.repeat(i, p.items[i].job)
	default:
		c.by = i
	}
	return nil
}

// decideOrder accepts one event of an order. If the order was begun before and never ended, its
// event may be in a queue already: this event gets that one's name, so that the queue knows it.
func (p *plan) decideOrder(i int) error {
	it := &p.items[i]
	switch c := it.order; {
	case c.State == ledger.Done:
		if string(c.Result) != it.job { // else it is its own entry, and was not answered
			p.repeat(i, string(c.Result))
		}
	case c.State != ledger.Fresh:
		return ErrRunning
	case c.by != nobody:
		p.repeat(i, p.items[c.by].job)
	default:
		c.by = i
		if len(c.Payload) > 0 {
			it.job = string(c.Payload)
		}
	}
	return nil
}
