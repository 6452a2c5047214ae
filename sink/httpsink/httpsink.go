// Package httpsink delivers messages over HTTP, to partners and webhooks that others run.
// Use it wherever a destination is a URL:
//
//	guard, err := httpguard.New(httpguard.Options{})
//	sink, err := httpsink.New(guard, httpsink.Options{
//		URL:  "https://partner.example/v1/conversions",
//		Auth: []httpsink.Auth{httpsink.Bearer(key)},
//	})
//
// A message is delivered when its request was answered 2xx, and Judge and Items, where they
// are set, find nothing wrong in the answer. Everything else is a *tidemill.Error around a
// *Refusal, which holds the answer. The sink does not retry, except in two cases in which
// the destination did nothing: after a 401 it renews an expired token once, and it sends a
// batch refused as a whole again in halves, to find the message that is to blame.
//
// If an answer is lost after its request was written, the failure is of kind unknown, unless
// the destination is declared Idempotent: then it is harmless to repeat the request.
package httpsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
)

// Options tune a sink. URL is required.
type Options struct {
	Name   string            // of the destination in errors; empty: the URL's host
	Method string            // empty: POST
	URL    string            // the destination, unless Encode says otherwise
	Header map[string]string // of every request; Content-Type is application/json if it has none

	// Encode makes the request of a message; nil: the payload, byte for byte. Its error fails
	// the message, as invalid unless it carries another kind. It may be called from several
	// goroutines.
	Encode func(*tidemill.Message, *Request) error
	Batch  Batch // several messages in one request

	Auth []Auth // applied in this order, so a signature comes last
	// Secrets are masked wherever an answer or an error is shown, as are those of Auth,
	// those in URL (see package urlsecret), and values of headers whose names mark them as
	// secret.
	Secrets []tidemill.Secret
	// Key of a message is the same for all its attempts and replays; nil: its ID. It is sent
	// as the idempotency key. A request with several messages sends a hash of all their
	// keys.
	Key       func(*tidemill.Message) string
	KeyHeader string // carries the key; empty: Idempotency-Key; "-": not sent

	Timeout    time.Duration // of one request, its answer included; 0 means 3s
	MaxAfter   time.Duration // the longest wait that Retry-After may ask for; 0 means 15m
	Idempotent bool          // the destination performs a repeated request only once

	// Judge judges an answer of any status. It decides, or leaves the decision to the
	// status.
	Judge func(*Answer) (v Verdict, decided bool)
	// Items reads from the answer the result of each message of a request, in their order;
	// ids are the IDs that Encode gave them. It is called where the request itself was
	// accepted. An error: the result is unknown for all of them.
	Items func(a *Answer, ids []string) ([]Verdict, error)
	// Turn returns when a request may go. It is called before each, also when a batch is
	// sent again in halves. An error: the request does not go. Nil: all may.
	Turn func(ctx context.Context) error
	// Observe is called after every request. It keeps nothing of its arguments.
	Observe func(ctx context.Context, batch []*tidemill.Message, a Attempt)

	// Tracer takes a span of each request. Nil: requests have none of their own; they carry the
	// trace of their message where it has one.
	Tracer tidemill.Tracer

	Now func() time.Time // nil: time.Now
}

// Batch says how messages go into one request. The zero value: each goes alone.
type Batch struct {
	Items               int // at most; 0: 1
	Bytes               int // of a body at most, envelope included; 0 means 1 MiB
	Head, Between, Tail []byte
}

// Request is what Encode makes of a message. Messages of one request share Method, URL and
// Header; a message with another value begins a new request.
type Request struct {
	Method string            // empty: Options.Method
	URL    string            // empty: Options.URL
	Header map[string]string // beside Options.Header
	Body   []byte            // append the body to it
	ID     string            // of the message in the destination's terms, for Items; empty: its key
}

// Attempt is one request and its result.
type Attempt struct {
	At     time.Time
	Took   time.Duration
	Status int    // 0: no answer
	Late   bool   // no answer came in time
	Body   []byte // the first 2 KiB of the answer, with secrets masked
	Err    error  // nil: delivered; a *tidemill.Partial where only some messages failed
}

// Sink is a tidemill.Sink. Its Write may be called from several goroutines.
type Sink struct {
	o      Options
	via    http.RoundTripper
	url    *url.URL
	header http.Header
	keyAs  string // header of the idempotency key, as it is written; empty: none
	hidden []string
	memory sync.Pool
}

// New checks the options and makes a sink that sends through a RoundTripper. Use an
// *httpguard.Guard wherever others choose the URL. New connects to nothing, and the sink
// does not close the RoundTripper.
func New(via http.RoundTripper, o Options) (*Sink, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New("http sink: its URL is none, such as https://partner.example/v1/events") // not the URL: it may hold a key
	}
	if o.Name == "" {
		o.Name = u.Hostname()
	}
	switch {
	case via == nil:
		return nil, fmt.Errorf("http sink %s: it needs a RoundTripper", o.Name)
	case u.User != nil:
		return nil, fmt.Errorf("http sink %s: user information in a URL is not sent; set Auth", o.Name)
	case o.Timeout < 0 || o.MaxAfter < 0 || o.Batch.Items < 0 || o.Batch.Bytes < 0:
		return nil, fmt.Errorf("http sink %s: a negative time or number", o.Name)
	case strings.ContainsAny(o.Method, " \r\n"):
		return nil, fmt.Errorf("http sink %s: method %q is none", o.Name, o.Method)
	}
	def(&o.Method, http.MethodPost)
	def(&o.KeyHeader, "Idempotency-Key")
	def(&o.Timeout, 3*time.Second)
	def(&o.MaxAfter, 15*time.Minute)
	def(&o.Batch.Items, 1)
	def(&o.Batch.Bytes, 1<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Key == nil {
		o.Key = func(m *tidemill.Message) string { return m.ID }
	}
	if o.Encode == nil {
		o.Encode = func(m *tidemill.Message, r *Request) error { r.Body = append(r.Body, m.Payload...); return nil }
	}
	s := &Sink{o: o, via: via, url: u, header: http.Header{"Content-Type": {"application/json"}, "User-Agent": {"Tidemill"}}}
	for name, value := range o.Header {
		if err := checkHeader(name, value); err != nil {
			return nil, fmt.Errorf("http sink %s: %w", o.Name, err)
		}
		put(s.header, name, value)
	}
	if o.KeyHeader != "-" {
		if err := checkHeader(o.KeyHeader, ""); err != nil {
			return nil, fmt.Errorf("http sink %s: %w", o.Name, err)
		}
		s.keyAs = o.KeyHeader
	}
	s.hidden = hidden(u, &o)
	s.memory.New = func() any { return &write{sink: s} }
	return s, nil
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Write sends the batch in order, one request after the other. Nil means that the
// destination has all of it. The error of a single message is its own; of several messages
// a *tidemill.Partial names those that failed.
//
// After a failure that says something about the destination, not about its messages, the
// rest is not sent: it fails likewise, so that no message overtakes another. To give each
// message a try of its own, write them one by one.
func (s *Sink) Write(ctx context.Context, batch []*tidemill.Message) error {
	if len(batch) == 0 {
		return nil
	}
	w := s.memory.Get().(*write)
	defer w.release()
	w.batch = batch
	for i, m := range batch {
		w.encode(ctx, i, m)
	}
	w.flush(ctx)
	switch {
	case len(w.failed) == 0:
		return nil
	case len(batch) == 1:
		return w.failed[0].Err
	}
	slices.SortFunc(w.failed, func(a, b tidemill.Failed) int { return a.Index - b.Index })
	return &tidemill.Partial{Failed: slices.Clone(w.failed)}
}

// write is one call of Write and its memory.
type write struct {
	sink    *Sink
	batch   []*tidemill.Message
	group   []item  // of the next request
	shared  Request // what they share
	next    Request // being encoded
	bytes   int     // of the group's body so far
	arena   []byte  // the encoded messages of the group
	answer  []byte  // the body of an answer
	ids     []string
	part    []*tidemill.Message
	failed  []tidemill.Failed
	stopped error // why nothing more is sent

	trace *tidemill.Trace // of the request; nil: none
	span  tidemill.Span   // of the request, where Begin is not zero
}

// item is one message of a request.
type item struct {
	index      int // in the batch
	start, end int // in the arena
	key, id    string
}

// keepBytes is the most memory that a write keeps for the next one.
const keepBytes = 1 << 20

func (w *write) release() {
	if cap(w.arena) > keepBytes {
		w.arena = nil
	}
	clear(w.group[:cap(w.group)])
	clear(w.failed[:cap(w.failed)])
	clear(w.ids[:cap(w.ids)])
	clear(w.part[:cap(w.part)])
	w.batch, w.group, w.failed, w.stopped = nil, w.group[:0], w.failed[:0], nil
	w.shared, w.next, w.trace = Request{}, Request{}, nil
	w.sink.memory.Put(w)
}

func (w *write) fail(index int, err error) {
	w.failed = append(w.failed, tidemill.Failed{Index: index, Err: err})
}

// encode adds a message to the group, after sending the group if the message does not fit.
func (w *write) encode(ctx context.Context, index int, m *tidemill.Message) {
	s := w.sink
	if w.stopped != nil {
		w.fail(index, w.stopped)
		return
	}
	start := len(w.arena)
	r := &w.next
	*r = Request{Body: w.arena}
	err := s.o.Encode(m, r)
	if err == nil {
		err = checkRequest(r)
	}
	if err == nil && len(r.Body) < start {
		err = errors.New("the encoder cut off what was encoded before")
	}
	if err != nil {
		if _, ok := errors.AsType[*tidemill.Error](err); !ok {
			err = &tidemill.Error{Kind: tidemill.Validation, Err: fmt.Errorf("%s: encode message %q: %w", s.o.Name, m.ID, err)}
		}
		w.fail(index, err)
		return
	}
	it := item{index: index, start: start, end: len(r.Body), key: s.o.Key(m), id: r.ID}
	def(&it.id, it.key)
	w.arena, r.Body = r.Body, nil
	size := it.end - it.start + len(s.o.Batch.Between)
	if len(w.group) > 0 && (w.bytes+size > s.o.Batch.Bytes || !alike(&w.shared, r)) {
		w.flushKeeping(ctx, &it)
		if w.stopped != nil {
			w.fail(index, w.stopped)
			return
		}
	}
	if len(w.group) == 0 {
		w.bytes, w.shared = len(s.o.Batch.Head)+len(s.o.Batch.Tail), *r
	}
	w.bytes += size
	w.group = append(w.group, it)
	if len(w.group) >= s.o.Batch.Items {
		w.flush(ctx)
	}
}

func alike(a, b *Request) bool {
	if a.Method != b.Method || a.URL != b.URL || len(a.Header) != len(b.Header) {
		return false
	}
	for name, value := range a.Header {
		if v, ok := b.Header[name]; !ok || v != value {
			return false
		}
	}
	return true
}

// flushKeeping sends the group and moves an item outside it to the arena's start.
func (w *write) flushKeeping(ctx context.Context, it *item) {
	kept := bytes.Clone(w.arena[it.start:it.end])
	w.flush(ctx)
	w.arena = append(w.arena, kept...)
	it.start, it.end = 0, len(kept)
}

// flush sends the group unless it is empty.
func (w *write) flush(ctx context.Context) {
	if len(w.group) > 0 {
		w.send(ctx, w.group)
	}
	w.group, w.arena = w.group[:0], w.arena[:0]
}

// send makes one request of items and settles them by its answer. It sends items that were
// refused as a whole again in halves.
func (w *write) send(ctx context.Context, items []item) {
	if w.stopped != nil {
		for _, it := range items {
			w.fail(it.index, w.stopped)
		}
		return
	}
	verdicts, err := w.request(ctx, items)
	if err == nil {
		for i, v := range verdicts {
			if v != nil {
				w.fail(items[i].index, v)
			}
		}
		return
	}
	refusal, answered := errors.AsType[*Refusal](err)
	answered = answered && refusal.Status != 0
	kind := tidemill.KindOf(err)
	switch {
	case answered && len(items) > 1 && (rejected(kind) || refusal.Status == http.StatusRequestEntityTooLarge):
		half := len(items) / 2
		w.send(ctx, items[:half])
		w.send(ctx, items[half:])
		return
	case !rejected(kind):
		w.stopped = w.notTried(err)
	}
	for _, it := range items {
		w.fail(it.index, err)
	}
}

// rejected kinds say something about a message, not about the destination.
func rejected(k tidemill.Kind) bool {
	return k == tidemill.Validation || k == tidemill.Business || k == tidemill.NotFound
}

// notTried is the error of messages that come after a failed one.
func (w *write) notTried(err error) error {
	e, ok := errors.AsType[*tidemill.Error](err)
	if !ok {
		return err // the end of the context
	}
	kind := e.Kind
	if kind == tidemill.Unknown {
		kind = tidemill.Partner // these were not sent
	}
	return &tidemill.Error{Kind: kind, After: e.After, Err: fmt.Errorf("not sent after another failed: %w", e.Err)}
}
