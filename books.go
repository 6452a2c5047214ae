package tidemill

// Count is one row of the books: how many messages ended with each fate.
type Count struct{ Delivered, Skipped, Dead uint64 }

// Add adds another row.
func (c *Count) Add(o Count) {
	c.Delivered += o.Delivered
	c.Skipped += o.Skipped
	c.Dead += o.Dead
}

// Total is how many messages the row stands for.
func (c Count) Total() uint64 { return c.Delivered + c.Skipped + c.Dead }

// Books account for every message of a source. Accepted, Settled and Pending are counted
// independently, so that they can disagree.
type Books struct {
	Accepted uint64 // counted by the source as messages came in: its log's end, entries added
	Settled  Count  // written by Settle in the same transaction as the settlement
	Pending  uint64 // found by reading the store: waiting, handed out, or delayed
	Lost     uint64 // gone at the source without us: trimmed, rolled back; named, and an alarm
}

// Off is how many messages are unaccounted for: above zero they are missing, below zero
// they were counted twice. Zero means that the books balance.
func (b Books) Off() int64 {
	return int64(b.Accepted) - int64(b.Settled.Total()+b.Pending+b.Lost)
}
