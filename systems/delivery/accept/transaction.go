package accept

import (
	"context"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
)

// A Transaction is what a ledger and queues in one store can do together.
type Transaction interface {
	// Take keeps entries as they are, which is Done, and adds jobs, durably and in one
	// transaction. It does so only if the ledger has no entry of any of the keys, no queue
	// knows the name of any of the jobs, and there is room for all. It reports whether it did:
	// otherwise nothing has changed. After an error it may have happened or not. It keeps none
	// of its arguments. It is safe for concurrent use.
	Take(ctx context.Context, es []*ledger.Entry, jobs []*tidemill.Message) (bool, error)
}

// strokeItems is how many items a request may have to be accepted in one transaction: others
// wait meanwhile.
const transactionItems = 100

// atOnce accepts a request in one transaction, as is possible for nearly every new request.
// Nil: it was not accepted so, or that is not known. Then the request goes step by step, which
// finds what was kept.
func (a *Acceptor) atOnce(ctx context.Context, r *Request) *Answer {
	if a.o.Transaction == nil || len(r.Items) > transactionItems {
		return nil
	}
	p, ok := a.plans.Get().(*plan)
	if !ok {
		p = new(plan)
	}
	defer func() {
		*p = plan{}
		a.plans.Put(p)
	}()
	newPlan(p, r)
	jobs := p.asNew(a)
	if len(jobs) == 0 {
		return nil
	}
	if r.Admit != nil && r.Admit(len(jobs)) != nil {
		return nil
	}
	answer, each := p.answer()
	took, err := a.o.Transaction.Take(ctx, p.kept(answer, each), jobs)
	if took && err == nil {
		return answer
	}
	if r.Return != nil {
		r.Return()
	}
	return nil
}

// asNew decides what becomes of each item if the ledger knows nothing of the request, and
// returns the jobs. It returns none if the ledger has to be asked.
func (p *plan) asNew(a *Acceptor) []*tidemill.Message {
	allFresh(p.claims)
	if again, err := p.decide(); again != nil || err != nil {
		return nil
	}
	allFresh(p.second())
	if p.decideSecond() != nil {
		return nil
	}
	return p.jobs(a)
}

func allFresh(cs []*claim) {
	for _, c := range cs {
		c.State = ledger.Fresh
	}
}

// kept are the entries that stay.
func (p *plan) kept(a *Answer, each [][]byte) []*ledger.Entry {
	es := p.done(a, each)
	kept := es[:0]
	for _, e := range es {
		if e.State == ledger.Done {
			kept = append(kept, e)
		}
	}
	return kept
}
