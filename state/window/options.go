package window

import (
	"cmp"
	"fmt"
	"time"
)

// Options tune a store; the zero value is ready to use. All users of a shared store should
// have the same.
type Options struct {
	// Window is how long a window is open; 0 means 60s. It is over when that much time has
	// passed since its first record came. A change also holds for windows that are already
	// open.
	Window time.Duration
	// Lease is how long a window that was handed out is kept from others; 0 means 30s. Keep
	// renews it; call Keep after a third of it.
	Lease time.Duration
	// Owner is shown to people as the owner of what this store hands out.
	Owner string
	// Now is the clock of a store that has no server; nil means time.Now. It must not block.
	Now func() time.Time
}

// WithDefaults fills in zero fields and refuses invalid ones. Times are whole milliseconds.
func (o Options) WithDefaults() (Options, error) {
	if o.Window < 0 || o.Lease < 0 || o.Window > 0 && o.Window < time.Millisecond {
		return o, fmt.Errorf("windows of %v and leases of %v: want both zero (the default) or some milliseconds at least", o.Window, o.Lease)
	}
	o.Window = cmp.Or(o.Window, time.Minute).Truncate(time.Millisecond)
	o.Lease = max(cmp.Or(o.Lease, 30*time.Second).Truncate(time.Millisecond), 3*time.Millisecond)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
