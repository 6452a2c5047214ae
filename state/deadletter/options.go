package deadletter

import (
	"cmp"
	"fmt"
	"time"
)

// Options tune a store; the zero value is ready to use.
type Options struct {
	// Max is how many dead letters a pipeline may have; 0 means 100,000. At that number Put
	// is refused with ErrFull.
	Max int
	// Trim makes room by dropping the oldest held dead letters instead, counted as lost.
	Trim bool
	// Lease is how long a dead letter that was handed out for replay is kept from others; 0
	// means 30s. Keep renews it; call Keep after a third of it.
	Lease time.Duration
	// Now is the clock; nil means time.Now. It must not block.
	Now func() time.Time
}

// WithDefaults fills in zero fields and refuses invalid ones.
func (o Options) WithDefaults() (Options, error) {
	if o.Max < 0 || o.Lease < 0 {
		return o, fmt.Errorf("dead letters: max %d and lease %v: want both zero (the default) or more", o.Max, o.Lease)
	}
	o.Max = cmp.Or(o.Max, 100_000)
	o.Lease = max(cmp.Or(o.Lease, 30*time.Second), 3*time.Millisecond) // leases are whole milliseconds
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
