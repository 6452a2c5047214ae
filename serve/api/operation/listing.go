package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"reflect"
	"time"
)

// Live is a request for a listing that goes on as long as somebody listens who still may. Its context
// ends with the rights of its caller, and so does the listing: without a problem.
type Live interface{ Live() bool }

// By is the listing with who lists. Its last line says that it is whole, {"whole": …}. Once it has
// begun, an error can only be its last line, {"problem": …}, after which the answer is cut off. A page
// is made as a whole.
func (l Listing[Q, A]) By(list func(context.Context, *Q) (iter.Seq2[A, error], error)) Handler {
	return l.CountedBy(list, nil)
}

// CountedBy is By with who counts what is listed; nil: nobody.
func (l Listing[Q, A]) CountedBy(list func(context.Context, *Q) (iter.Seq2[A, error], error), count Counter[Q]) Handler {
	return Handler{l.Description, func(w http.ResponseWriter, r *http.Request) error {
		q := new(Q)
		s := served{Description: l.Description, asks: q, list: func(ctx context.Context) (iter.Seq2[any, error], error) {
			all, err := list(ctx, q)
			return untyped(all), err
		}}
		if count != nil {
			s.count = func(ctx context.Context, most int) (int, error) { return count(ctx, q, most) }
		}
		return s.serve(w, r)
	}}
}

// untyped yields the same items, for code that there is once and not for each type.
func untyped[A any](all iter.Seq2[A, error]) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		all(func(a A, err error) bool { return yield(a, err) })
	}
}

// served is a listing that answers a request.
type served struct {
	*Description
	asks  any // a pointer to the request
	list  func(context.Context) (iter.Seq2[any, error], error)
	count func(ctx context.Context, most int) (int, error) // nil: it is not counted
}

// serve answers with an object: a page, or all of a listing that has none. Lines are for those who ask for
// them, and for those who listen on.
func (s *served) serve(w http.ResponseWriter, r *http.Request) error {
	if err := s.read(w, r, reflect.ValueOf(s.asks).Elem()); err != nil {
		return err
	}
	live, ok := s.asks.(Live)
	goesOn := ok && live.Live()
	in, pages := s.asks.(paged)
	switch lines := goesOn || forLines(r); {
	case pages && lines:
		if err := in.page().noPage(); err != nil {
			return err
		}
		return s.lines(w, r, goesOn)
	case lines:
		return s.lines(w, r, goesOn)
	case pages:
		return s.page(w, r, in.page())
	}
	return s.object(w, r, func(all iter.Seq2[any, error]) (*Paged[any], error) { return wholeOf(all, time.Now()) })
}

// page answers with a page.
func (s *served) page(w http.ResponseWriter, r *http.Request, p *Page) error {
	now, of := time.Now(), listingOf(r)
	if err := p.open(of, now); err != nil {
		return err
	}
	if s.count == nil && p.Counts() {
		return Refuse(http.StatusBadRequest, "this listing is not counted: leave count out")
	}
	return s.object(w, r, func(all iter.Seq2[any, error]) (*Paged[any], error) {
		found, err := pageOf(all, p, of, now)
		if err == nil {
			found.Count = counted(r.Context(), p, s.count)
		}
		return found, err
	})
}

// all is what is listed.
func (s *served) all(ctx context.Context) (iter.Seq2[any, error], error) {
	all, err := s.list(ctx)
	if in, ok := s.asks.(paged); ok && err == nil && isShort(s.Description) {
		all = in.page().part(all)
	}
	return all, err
}

// object answers with one object that is made of the listing.
func (s *served) object(w http.ResponseWriter, r *http.Request, of func(iter.Seq2[any, error]) (*Paged[any], error)) error {
	all, err := s.all(r.Context())
	if err != nil {
		return err
	}
	found, err := of(all)
	if err != nil {
		return err
	}
	if err := coverOf(r.Context()).page(found); err != nil {
		return err
	}
	w.Header().Add("Vary", "Accept")
	Write(w, http.StatusOK, "application/json", found)
	return nil
}

// lines answers with a line for each item.
func (s *served) lines(w http.ResponseWriter, r *http.Request, goesOn bool) error {
	ctx := r.Context()
	if goesOn {
		var end func()
		ctx, end = whileMay(ctx)
		defer end()
	}
	all, err := s.all(ctx)
	if err != nil {
		return err
	}
	w.Header().Add("Vary", "Accept")
	w.Header().Set("Content-Type", LinesType)
	out := lines{w: w, cover: coverOf(r.Context()), enc: json.NewEncoder(w), flush: http.NewResponseController(w), live: goesOn}
	if goesOn {
		_ = out.flush.SetReadDeadline(time.Time{}) // in this very process there is none
		_ = out.flush.SetWriteDeadline(time.Time{})
	}
	looked := 0
	for a, err := range all {
		if rest, early := errors.AsType[*Rest](err); early {
			looked = rest.Looked
			break
		}
		switch {
		case goesOn && ctx.Err() != nil: // what comes now is for nobody
			return nil
		case err != nil:
			return out.cut(err)
		case r.Method == http.MethodHead: // nobody wants the lines
			return nil
		}
		if err := out.add(a); err != nil {
			return out.cut(err)
		}
	}
	if goesOn || r.Method == http.MethodHead {
		return nil
	}
	return out.enc.Encode(ListingEnd{Whole: &Whole{out.n, looked}})
}

// LinesType is the type of a listing.
const LinesType = "application/x-ndjson"

// lines are those of a listing that goes out.
type lines struct {
	w     http.ResponseWriter
	cover *cover
	n     int
	enc   *json.Encoder
	flush *http.ResponseController
	live  bool // each line goes out at once
	line  []byte
}

// add writes a line: what knows its own form writes that.
func (l *lines) add(v any) (err error) {
	l.n++
	if own, ok := v.(interface{ AppendJSON([]byte) []byte }); ok {
		l.line = own.AppendJSON(l.line[:0])
		if c := l.cover.over(v); c != nil {
			l.line, err = c.json(shapeOf(reflect.TypeOf(v)), l.line)
		}
		if l.line = append(l.line, '\n'); err == nil {
			_, err = l.w.Write(l.line)
		}
	} else if v, err = l.cover.of(v); err == nil {
		err = l.enc.Encode(v)
	}
	if err == nil && l.live {
		if err = l.flush.Flush(); errors.Is(err, http.ErrNotSupported) { // in this very process
			err = nil
		}
	}
	return err
}

// cut ends a listing with an error: the client must not take it for the whole.
func (l *lines) cut(err error) error {
	if l.n == 0 {
		return err
	}
	problem, ok := errors.AsType[*Problem](err)
	if !ok {
		problem = Refuse(http.StatusInternalServerError, "%v", err)
	}
	_ = l.enc.Encode(ListingEnd{Problem: problem})
	_ = l.flush.Flush()
	panic(http.ErrAbortHandler)
}

// ListingEnd is the last line of a listing: it is whole, or could not go on. A listing without it was
// cut off, unless it goes on as long as somebody listens.
type ListingEnd struct {
	Whole   *Whole   `json:"whole,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// Whole says that all of a listing was there.
type Whole struct {
	Items  int `json:"items"`            // lines before this one
	Looked int `json:"looked,omitempty"` // the listing ends early: so many entries were looked at, and what it is of may be among older ones too
}

// isEnd says whether a line is the last one: no item of a listing has a member that is called so.
func isEnd(line []byte) bool {
	return bytes.HasPrefix(line, []byte(`{"whole":`)) || bytes.HasPrefix(line, []byte(`{"problem":`))
}

// endNames are the members of a ListingEnd.
var endNames = []string{"whole", "problem"}
