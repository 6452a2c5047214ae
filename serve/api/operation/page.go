package operation

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"time"
)

const (
	usualLimit = 50 // items of a page where nothing is said
	cursorFor  = 24 * time.Hour
)

// Page is part of the request of a listing that can be read in pages: what stays is seen once,
// whatever comes and goes between them. Who asks for lines gets all that matches.
type Page struct {
	Order  string `query:"order" enum:",oldest,newest" default:"" help:"Which comes first: oldest or newest. Default: oldest; of warnings and pages of events newest." placeholder:"oldest|newest"`
	Limit  int    `query:"limit" bounds:"1-1000" kong:"-" help:"At most so many in a page, 1 to 1000. Default: 50. In lines (Accept: application/x-ndjson) there are no pages."`
	Cursor string `query:"cursor" kong:"-" help:"The page after another one, its next, or before it, its previous. It is valid for a day, with the same parameters beside it."`
	Count  string `query:"count" enum:",none,bounded,exact" default:"" kong:"-" cost:"exact=dear" help:"Beside a page, how many there are: bounded counts up to 10000, for at most 300 ms; exact counts all, for at most 2 seconds, and is dear and for operators. Default: none."`

	after string // where another page ended, or began
	back  bool   // this is the page before that
}

// PageLimits are the limits of pages of listings.
type PageLimits struct {
	Usual   int `json:"usual"`          // items of a page for which no limit is given
	Most    int `json:"most"`           // items of a page
	Cursor  int `json:"cursor_seconds"` // for which a cursor is valid
	Counted int `json:"counted"`        // items that count=bounded counts
}

// LimitsOfPages are the same for all listings.
func LimitsOfPages() PageLimits {
	f, _ := reflect.TypeFor[Page]().FieldByName("Limit")
	_, most, _ := (&Param{Field: f}).Bounds()
	return PageLimits{Usual: usualLimit, Most: most, Cursor: int(cursorFor.Seconds()), Counted: countMost}
}

// Keyed is an item of a listing that can be read in pages. Its key says where it is in the listing.
type Keyed interface{ PageKey() string }

// Paged is a listing as an object: a page, or all of one that has no pages.
type Paged[A any] struct {
	Items    []A       `json:"items"`
	Next     string    `json:"next,omitempty"`     // the cursor of the page after this one; left out: this is the last
	Previous string    `json:"previous,omitempty"` // the cursor of the page before this one; left out: this is the first
	Count    *Count    `json:"count,omitempty"`    // how many there are on all pages, where that was asked for
	Looked   int       `json:"looked,omitempty"`   // the page ends early: so many that do not match were looked at, and next goes on behind them
	AsOf     time.Time `json:"as_of"`              // when it was read
}

// asked says whether a page is asked for in words.
func (p *Page) asked() bool { return p.Limit > 0 || p.Cursor != "" }

// noPage refuses lines that are to be a page too.
func (p *Page) noPage() error {
	if p.asked() || p.Count != "" {
		return Refuse(http.StatusBadRequest, "limit, cursor and count are of pages, and this asks for lines: leave them out, or ask for application/json")
	}
	return nil
}

// After is the key that the listing begins after, the way that Back says; empty: at its beginning.
func (p *Page) After() string { return p.after }

// Back says whether the newest come first. So it is with a page before another one, where the oldest
// do: the page is turned round before it is answered.
func (p *Page) Back() bool { return (p.Order == "newest") != p.back }

// Most is how many items a listing reads at most: of a page one more than it shows, which says that
// there is another page; of lines the max that is given. 0: all.
func (p *Page) Most(most int) (int, error) {
	switch {
	case !p.asked():
		return most, nil
	case most > 0:
		return 0, Refuse(http.StatusBadRequest, "max is for lines (Accept: application/x-ndjson) and limit for pages: this asks for a page")
	}
	return p.Limit + 1, nil
}

func (p *Page) page() *Page { return p }

// paged is a request that has a Page.
type paged interface{ page() *Page }

// open reads the cursor.
func (p *Page) open(of []byte, now time.Time) error {
	if p.Limit == 0 {
		p.Limit = usualLimit
	}
	if p.Cursor == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || len(b) < cursorHead || string(sumOf(b[sumBytes:], of)) != string(b[:sumBytes]) {
		return Refuse(http.StatusBadRequest, "the cursor is none of this listing with these parameters: take the next of a page as it is, and ask for the rest as for that page")
	}
	if made := time.Unix(int64(binary.BigEndian.Uint64(b[sumBytes:])), 0); now.Sub(made) > cursorFor {
		return Refuse(http.StatusBadRequest, "the cursor is older than a day: begin without one")
	}
	p.back, p.after = b[cursorHead-1] == toPrevious, string(b[cursorHead:])
	return nil
}

// A cursor is a sum over what it is of and over the rest, the second when it was made, which way it
// goes, and a key. The sum finds a cursor of another listing, and one that was cut. It keeps nobody from
// making one up: who does reads on from a key of their own in a listing that they may read anyway.
const (
	sumBytes   = 16
	cursorHead = sumBytes + 8 + 1
)

const (
	toNext     = 'n'
	toPrevious = 'p'
)

// cursor is the one of the page after a key, or before it.
func cursor(key string, way byte, of []byte, now time.Time) string {
	b := append(binary.BigEndian.AppendUint64(nil, uint64(now.Unix())), way)
	b = append(b, key...)
	return base64.RawURLEncoding.EncodeToString(append(sumOf(b, of), b...))
}

// found is what a page has: how many items, the keys of the first and the last, whether the listing
// had more, and where it goes on if it ended the page early.
type found struct {
	n           int
	first, last string
	more        bool
	rest        *Rest
}

// turns are the cursors of the pages behind and before one; empty: there is none.
func (p *Page) turns(f found, of []byte, now time.Time) (next, previous string) {
	at := func(key string, way byte) string { return cursor(key, way, of, now) }
	switch {
	case f.rest != nil && p.back: // it goes on at rest, and back where it began
		next, previous = at(p.after, toNext), at(f.rest.Key, toPrevious)
		if f.n > 0 {
			next = at(f.last, toNext)
		}
	case f.rest != nil:
		next = at(f.rest.Key, toNext)
		switch {
		case p.after == "":
		case f.n > 0:
			previous = at(f.first, toPrevious)
		default:
			previous = at(p.after, toPrevious)
		}
	case f.n > 0:
		if p.back || f.more { // it came from there, or there are more
			next = at(f.last, toNext)
		}
		if p.back && f.more || !p.back && p.after != "" {
			previous = at(f.first, toPrevious)
		}
	}
	return next, previous
}

func sumOf(b, of []byte) []byte {
	h := sha256.New()
	h.Write(b)
	h.Write(of)
	return h.Sum(nil)[:sumBytes]
}

// listingOf is what a cursor is of: the listing, with all that is asked but the page.
func listingOf(r *http.Request) []byte {
	q, _ := url.ParseQuery(r.URL.RawQuery) // it was read
	delete(q, "cursor")
	delete(q, "limit")
	delete(q, "count")
	return []byte(r.URL.Path + "?" + q.Encode())
}

// Rest is the error by which a listing ends a page before it is full: so many that do not match were
// looked at. The page has what was found, and the listing goes on after Key. One that has no pages ends
// with what was found, and its last line says how many were looked at.
type Rest struct {
	Key    string
	Looked int // that do not match; 0: how many is not known
}

// Error says where the listing goes on, or how much of it was looked at.
func (r *Rest) Error() string {
	if r.Key == "" {
		return fmt.Sprintf("the listing ends after %d entries that were looked at", r.Looked)
	}
	return "the listing goes on after " + r.Key
}

// taken are the first items of a listing, most of them at most (0: all), whether there are more, and where it ended
// early, if it did.
func taken(all iter.Seq2[any, error], most int) (items []any, more bool, rest *Rest, err error) {
	items = []any{}
	for a, err := range all {
		if rest, early := errors.AsType[*Rest](err); early {
			return items, false, rest, nil
		}
		if err != nil {
			return nil, false, nil, err
		}
		if most > 0 && len(items) == most {
			return items, true, nil, nil
		}
		items = append(items, a)
	}
	return items, false, nil, nil
}

// objectOf is a listing as an object, without cursors.
func objectOf(items []any, rest *Rest, now time.Time) *Paged[any] {
	out := &Paged[any]{Items: items, AsOf: now.UTC()}
	if rest != nil {
		out.Looked = rest.Looked
	}
	return out
}

// wholeOf reads all of a listing that has no pages.
func wholeOf(all iter.Seq2[any, error], now time.Time) (*Paged[any], error) {
	items, _, rest, err := taken(all, 0)
	if err != nil {
		return nil, err
	}
	return objectOf(items, rest, now), nil
}

// pageOf reads a page of a listing that yields one item more, if there is one, or a Rest.
func pageOf(all iter.Seq2[any, error], p *Page, of []byte, now time.Time) (*Paged[any], error) {
	items, more, rest, err := taken(all, p.Limit)
	if err != nil {
		return nil, err
	}
	if p.back {
		slices.Reverse(items)
	}
	out, f := objectOf(items, rest, now), found{n: len(items), more: more, rest: rest}
	if f.n > 0 {
		f.first, f.last = items[0].(Keyed).PageKey(), items[f.n-1].(Keyed).PageKey()
	}
	out.Next, out.Previous = p.turns(f, of, now)
	return out, nil
}
