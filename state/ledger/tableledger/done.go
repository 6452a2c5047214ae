package tableledger

import (
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/table"
)

// Known says for each entry whether its key is in the ledger, in any state, for a transaction of
// another role that is in the table's database.
func (l *Ledger[Raw]) Known(tx table.Tx[ledger.Record], es []*ledger.Entry) ([]bool, error) {
	found, err := tx.Get(keysOf(es), "state")
	if err != nil {
		return nil, err
	}
	known := make([]bool, len(es))
	for i, e := range es {
		known[i] = found[e.Key] != nil
	}
	return known, nil
}

// Keep keeps entries that are done as soon as they begin, in such a transaction. Each has another
// key, and none is in the ledger. Payloads are not kept.
func (l *Ledger[Raw]) Keep(tx table.Tx[ledger.Record], es []*ledger.Entry) error {
	if err := ledger.CheckBegin(es); err != nil || len(es) == 0 {
		return err
	}
	now := ledger.Instant(l.now())
	rs, all := make([]ledger.Record, len(es)), make([]*ledger.Record, len(es))
	for i, e := range es {
		r := &rs[i]
		r.Begin(e, ledger.Begin{}, 0, now)
		r.State, r.Until, r.Ended, r.Result, r.Payload = ledger.Done, now, now, e.Result, nil
		all[i] = r
	}
	if err := number(tx, all); err != nil {
		return err
	}
	return put(tx, all)
}
