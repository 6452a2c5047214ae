package profile

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// The bounds of input from outside.
const (
	MaxName       = 255       // bytes of a tenant and of an external id
	MaxEach       = 32        // identities of one kind in a profile
	MaxKey        = 255       // bytes of an attribute's name
	MaxValue      = 16 << 10  // bytes of an attribute's value
	MaxDepth      = 100       // nesting of arrays and objects in a value
	MaxAttributes = 1000      // of a profile, with removed ones: their time is remembered
	MaxBytes      = 256 << 10 // all that is kept of a profile's attributes
	MaxPage       = 1000      // profiles of one List
)

// Options are those of every backend; the zero value is ready to use.
type Options struct {
	// Externals is how many external ids a profile can have; 0 means MaxEach. With 1 the
	// external id decides who somebody is: another external id is another customer, also
	// where a family shares an email.
	Externals int
	// Alone says that nothing but this store changes its profiles, no other process either: it
	// then remembers whose identities are. Where others do, an event of a profile that one of
	// them has deleted would go to that profile.
	Alone bool
	NewID func() uuid.UUID // nil means UUIDv7, so that List is in order of creation. It must not block.
	Now   func() time.Time // nil means time.Now. It must not block.
}

// WithDefaults fills in zero fields.
func (o Options) WithDefaults() (Options, error) {
	if o.Externals < 0 || o.Externals > MaxEach {
		return o, fmt.Errorf("profiles: Externals is %d; want 1 to %d, or 0 for %d", o.Externals, MaxEach, MaxEach)
	}
	if o.Externals == 0 {
		o.Externals = MaxEach
	}
	if o.NewID == nil {
		o.NewID = func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
