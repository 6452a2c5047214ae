package operation

import (
	"context"
	"encoding/json"
	"io"
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
	v, versioned := a.(Versioned)
	if d := documentOf(a); d != nil {
		if versioned && asItWas(w, r, quoted(v.Version())) {
			return nil
		}
		return d.answer(w)
	}
	shown, err := coverOf(r.Context()).of(a)
	if err != nil {
		return err
	}
	if versioned {
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
	File  string // a browser keeps it as a file of this name; empty: it may show it
	Write func(io.Writer) error
}

func (d *Document) answer(w http.ResponseWriter) error {
	out := &documentWriter{w: w, flush: http.NewResponseController(w)}
	w.Header().Set("Content-Type", d.Type)
	if d.File != "" {
		AsFile(w.Header(), d.File)
	}
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
