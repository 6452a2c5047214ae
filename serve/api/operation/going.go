package operation

import (
	"fmt"
	"net/http"
	"time"
)

// Going says that an operation goes away, and what its clients do instead.
type Going struct {
	Since   time.Time // when that was said: a day
	Ends    time.Time // until when it is there at least: a day, six months later or more
	Instead string    // a sentence
}

// GoingAway is an operation that goes away: from the day since, which may still come, clients know that
// they need something else, and from the day ends it may be missing. Days are written 2027-01-31.
// Less than six months between them is a mistake of the program, found when it starts. It is no method,
// which each of a hundred operations would have.
func GoingAway[Q, A any](o Operation[Q, A], since, ends, instead string) Operation[Q, A] {
	o.Going = going(o.Description, since, ends, instead)
	return o
}

// ListGoingAway is a listing that goes away, as [GoingAway] has it.
func ListGoingAway[Q, A any](l Listing[Q, A], since, ends, instead string) Listing[Q, A] {
	l.Going = going(l.Description, since, ends, instead)
	return l
}

// leastMonths are how long clients have to go elsewhere.
const leastMonths = 6

func going(d *Description, since, ends, instead string) *Going {
	g := &Going{Instead: instead}
	for _, day := range []struct {
		text string
		into *time.Time
	}{{since, &g.Since}, {ends, &g.Ends}} {
		var err error
		if *day.into, err = time.Parse(time.DateOnly, day.text); err != nil {
			panic(fmt.Sprintf("operation %s: it goes away at %q, which is no day as 2027-01-31", d.ID, day.text))
		}
	}
	switch {
	case g.Ends.Before(g.Since.AddDate(0, leastMonths, 0)):
		panic(fmt.Sprintf("operation %s: from %s to %s are less than %d months", d.ID, since, ends, leastMonths))
	case instead == "":
		panic(fmt.Sprintf("operation %s: it goes away, and nobody is told what to do instead", d.ID))
	}
	return g
}

// String says it in words, for people.
func (g *Going) String() string {
	return fmt.Sprintf("It goes away: deprecated since %s, and gone from %s on at the earliest. %s", g.Since.Format(time.DateOnly), g.Ends.Format(time.DateOnly), g.Instead)
}

// Tell tells a client with an answer: Deprecation (RFC 9745), Sunset (RFC 8594), and a link to the page
// at explained, for people. Of an operation that stays nothing is told; g is nil then.
func (g *Going) Tell(h http.Header, explained string) {
	if g == nil {
		return
	}
	h.Set("Deprecation", fmt.Sprintf("@%d", g.Since.Unix()))
	h.Set("Sunset", g.Ends.Format(http.TimeFormat))
	h.Add("Link", fmt.Sprintf(`<%s>; rel="deprecation"; type="text/html"`, explained))
}
