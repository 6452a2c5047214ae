package policy

import (
	"fmt"

	"github.com/tidemill/tidemill"
)

// Do is what happens to a message that failed.
type Do uint8

const (
	Retrying Do = iota // try again, while Retry allows it, then Dead
	Skip               // end it as skipped, with the failure as the reason
	Dead               // end it as a dead letter
	Pause              // hand back without counting a try, stop the pipeline for a while, alarm
)

var doNames = [...]string{Retrying: "retry", Skip: "skip", Dead: "dead", Pause: "pause"}

// String returns the action as it is written in configuration.
func (d Do) String() string {
	if int(d) < len(doNames) {
		return doNames[d]
	}
	return fmt.Sprintf("do(%d)", uint8(d))
}

// MarshalText writes the name.
func (d Do) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText takes a name.
func (d *Do) UnmarshalText(b []byte) error {
	for i, n := range doNames {
		if n == string(b) {
			*d = Do(i)
			return nil
		}
	}
	return fmt.Errorf("rule %q: want one of %q", b, doNames)
}

// Rule is one row of the table.
type Rule struct {
	Do       Do
	CountTry bool // a retry counts as a failed try; else it is repeated without limit
	Blames   bool // the failure counts against the destination's breaker
}

// Table says what follows each kind of failure. A kind that it does not name has the rule
// of Default, so a table holds only what is different.
type Table map[tidemill.Kind]Rule

// Default is the whole table. Only an explicit list is permanent.
func Default() Table {
	return Table{
		tidemill.Validation:  {Do: Dead},
		tidemill.NotFound:    {Do: Retrying, CountTry: true},
		tidemill.Business:    {Do: Dead},
		tidemill.Timeout:     {Do: Retrying, CountTry: true, Blames: true},
		tidemill.RateLimit:   {Do: Retrying},
		tidemill.Partner:     {Do: Retrying, CountTry: true, Blames: true},
		tidemill.Credentials: {Do: Pause},
		tidemill.Transient:   {Do: Retrying, CountTry: true, Blames: true},
		tidemill.Internal:    {Do: Retrying, CountTry: true},
		tidemill.Unknown:     {Do: Dead, Blames: true}, // held for a person; where repeating is harmless the engine takes Timeout's rule
	}
}

// Complete returns the table with the rows of Default where it has none of its own.
func (t Table) Complete() Table {
	c := Default()
	for k, r := range t {
		c[k] = r
	}
	return c
}

// For finds the rule of a kind.
func (t Table) For(k tidemill.Kind) Rule {
	if r, ok := t[k]; ok {
		return r
	}
	if r, ok := Default()[k]; ok {
		return r
	}
	return Rule{Do: Retrying, CountTry: true, Blames: true} // unnamed: transient
}

// Fate is how a message ends at once by a failure of this kind; None: it does not, but is tried again.
func (t Table) Fate(k tidemill.Kind) tidemill.Fate {
	switch t.For(k).Do {
	case Skip:
		return tidemill.Skipped
	case Dead:
		return tidemill.Dead
	}
	return tidemill.None
}
