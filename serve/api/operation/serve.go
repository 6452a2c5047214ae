package operation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"reflect"
	"time"
)

// Handler is an operation with who does it.
type Handler struct {
	*Description
	// Serve answers, unless it returns why it did not.
	Serve func(http.ResponseWriter, *http.Request) error
}

// By is the operation with who does it: a nil error means that the answer is all of it.
func (o Operation[Q, A]) By(do func(context.Context, *Q) (A, error)) Handler {
	return Handler{o.Description, func(w http.ResponseWriter, r *http.Request) error {
		q := new(Q)
		if err := o.asked(w, r, q); err != nil {
			return err
		}
		a, err := do(r.Context(), q)
		if err != nil {
			return err
		}
		return answered(w, r, a)
	}}
}

// asked reads a request into its type.
func (d *Description) asked(w http.ResponseWriter, r *http.Request, q any) error {
	err := d.read(w, r, reflect.ValueOf(q).Elem())
	if err == nil && d.NeedsKey && r.Header.Get(IdempotencyKey) == "" {
		err = Refuse(http.StatusBadRequest, "%s needs the header Idempotency-Key, which is any text of your own: sent twice it is done once", d.ID)
	}
	return err
}

// answered writes an answer.
func answered(w http.ResponseWriter, r *http.Request, a any) error {
	if d := documentOf(a); d != nil {
		return d.answer(w)
	}
	shown, err := coverOf(r.Context()).of(a)
	if err != nil {
		return err
	}
	if v, ok := a.(Versioned); ok {
		return tagged(w, r, shown, tagOf(v, shown))
	}
	status := http.StatusOK
	if s, ok := a.(interface{ Status() int }); ok {
		status = s.Status()
	}
	Write(w, status, "application/json", shown)
	return nil
}

// Document is an answer of another form than JSON. It may be long: a client has 30 seconds to take
// the next part of it. Where Write fails after it has written something, the answer is cut off.
type Document struct {
	Type  string
	Write func(io.Writer) error
}

func (d *Document) answer(w http.ResponseWriter) error {
	out := &documentWriter{w: w, flush: http.NewResponseController(w)}
	w.Header().Set("Content-Type", d.Type)
	err := d.Write(out)
	if err != nil && out.begun {
		panic(http.ErrAbortHandler)
	}
	return err
}

// documentWriter gives each part of a document its time.
type documentWriter struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	begun bool
}

func (d *documentWriter) Write(b []byte) (int, error) {
	d.begun = true
	_ = d.flush.SetWriteDeadline(time.Now().Add(takesWithin)) // in this very process there is none
	return d.w.Write(b)
}

// Textual is an answer that is JSON, or a document where that was asked for; nil: it was not.
type Textual interface{ Document() *Document }

// documentOf is an answer that is no JSON; nil: it is.
func documentOf(a any) *Document {
	switch a := a.(type) {
	case Document:
		return &a
	case Textual:
		return a.Document()
	}
	return nil
}

// Write answers with JSON.
func Write(w http.ResponseWriter, status int, kind string, v any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone, or will see that it is cut
}

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

func (s *served) serve(w http.ResponseWriter, r *http.Request) error {
	if err := s.read(w, r, reflect.ValueOf(s.asks).Elem()); err != nil {
		return err
	}
	if in, ok := s.asks.(paged); ok {
		p, now, of := in.page(), time.Now(), listingOf(r)
		if err := cmp.Or(p.open(of, now), p.mayCount(r.Context(), s.Description, s.count != nil)); err != nil {
			return err
		}
		if p.asked() {
			return s.page(w, r, p, of, now)
		}
	}
	return s.lines(w, r)
}

// page answers with a page.
func (s *served) page(w http.ResponseWriter, r *http.Request, p *Page, of []byte, now time.Time) error {
	all, err := s.list(r.Context())
	if err != nil {
		return err
	}
	found, err := pageOf(all, p, of, now)
	if err != nil {
		return err
	}
	found.Count = counted(r.Context(), p, s.count)
	if err := coverOf(r.Context()).page(found); err != nil {
		return err
	}
	Write(w, http.StatusOK, "application/json", found)
	return nil
}

// lines answers with a line for each item.
func (s *served) lines(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	live, ok := s.asks.(Live)
	goesOn := ok && live.Live()
	if goesOn {
		var end func()
		ctx, end = whileMay(ctx)
		defer end()
	}
	all, err := s.list(ctx)
	if err != nil {
		return err
	}
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
