package admin

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// lookBound is how much a page looks at beside what it shows: so many, or for so long.
type lookBound struct {
	most   int
	within time.Duration
}

// begin begins to look.
func (b lookBound) begin(now func() time.Time) *looking {
	return &looking{lookBound: b, now: now, began: now()}
}

// looking is a look that has begun.
type looking struct {
	lookBound
	now    func() time.Time
	began  time.Time
	looked int
}

// enough counts what was looked at and does not match, and says whether the page ends with it.
func (l *looking) enough(more int) bool {
	l.looked += more
	return l.looked >= l.most || l.now().Sub(l.began) >= l.within
}

// rest ends the page: it goes on after a key.
func (l *looking) rest(key string) *operation.Rest {
	return &operation.Rest{Key: key, Looked: l.looked}
}
