package httpsink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tidemill/tidemill"
)

// request sends one request for items. It returns the result of each (nil: delivered; a nil
// slice: all are), or why the request as a whole failed.
func (w *write) request(ctx context.Context, items []item) ([]error, error) {
	s := w.sink
	a := Answer{}
	w.follow(items)
	verdicts, err := w.exchange(ctx, items, &a)
	w.followed(&a, err)
	if s.o.Observe != nil {
		at := Attempt{At: a.at, Took: a.Took, Status: a.Status, Body: s.blot(a.Body), Err: err}
		if r, ok := errors.AsType[*Refusal](err); ok {
			at.Late = r.Late
		}
		if err == nil {
			at.Err = partial(verdicts)
		}
		w.part = w.part[:0]
		for _, it := range items {
			w.part = append(w.part, w.batch[it.index])
		}
		s.o.Observe(ctx, w.part, at)
	}
	return verdicts, err
}

func partial(verdicts []error) error {
	var p tidemill.Partial
	for i, v := range verdicts {
		if v != nil {
			p.Failed = append(p.Failed, tidemill.Failed{Index: i, Err: v})
		}
	}
	if p.Failed == nil {
		return nil
	}
	return &p
}

func (w *write) exchange(ctx context.Context, items []item, a *Answer) ([]error, error) {
	s := w.sink
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	body := w.assemble(items)
	key := keyOf(items)
	for renewed := false; ; renewed = true {
		if s.o.Turn != nil {
			if err := s.o.Turn(ctx); err != nil {
				return nil, err
			}
		}
		again, err := w.once(ctx, body, key, a)
		if err != nil {
			return nil, err
		}
		if !again || renewed {
			break
		}
	}
	if err := s.judge(a); err != nil {
		return nil, err
	}
	if s.o.Items == nil {
		return nil, nil
	}
	return w.items(items, a)
}

// once sends the request and reads the answer. again says that it was refused because of a
// token that can be renewed.
func (w *write) once(ctx context.Context, body []byte, key string, a *Answer) (again bool, err error) {
	s := w.sink
	*a = Answer{at: s.o.Now()}
	r, err := w.build(body)
	if err != nil {
		return false, err
	}
	if s.keyAs != "" && key != "" {
		if !httpguts.ValidHeaderFieldValue(key) {
			key = hash(key)
		}
		put(r.Header, s.keyAs, key)
	}
	for _, auth := range s.o.Auth {
		if err := auth.Sign(ctx, r, key, body); err != nil { // this may request a token, with its own timeout
			return false, s.unsigned(ctx, err)
		}
	}
	deadline, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	var sent connected
	a.at = s.o.Now()
	answer, err := roundTrip(s.via, r.WithContext(httptrace.WithClientTrace(deadline, sent.trace())))
	if err != nil {
		a.Took = s.o.Now().Sub(a.at)
		return false, s.lost(ctx, deadline, err, &sent, a)
	}
	w.answer = a.read(answer, w.answer)
	a.Took = s.o.Now().Sub(a.at)
	if a.Status == http.StatusUnauthorized {
		for _, auth := range s.o.Auth {
			if t, ok := auth.(*Token); ok {
				again = t.refused(r) || again
			}
		}
	}
	return again, nil
}

// roundTrip sends a request. It ignores an answer that comes as the context ends: a server
// that gives up because we close the connection may answer 200 while it does so.
func roundTrip(via http.RoundTripper, r *http.Request) (*http.Response, error) {
	answer, err := via.RoundTrip(r)
	if err == nil && r.Context().Err() != nil {
		_ = answer.Body.Close()
		return nil, r.Context().Err()
	}
	return answer, err
}

// assemble puts the items into the envelope, in separate memory: net/http may still read it
// after the answer came.
func (w *write) assemble(items []item) []byte {
	b := &w.sink.o.Batch
	size := len(b.Head) + len(b.Tail) + len(items)*len(b.Between)
	for _, it := range items {
		size += it.end - it.start
	}
	body := append(make([]byte, 0, size), b.Head...)
	for i, it := range items {
		if i > 0 {
			body = append(body, b.Between...)
		}
		body = append(body, w.arena[it.start:it.end]...)
	}
	return append(body, b.Tail...)
}

// keyOf is the idempotency key of a request: with several messages it changes with any of
// them, and is the same where all are.
func keyOf(items []item) string {
	if len(items) == 1 {
		return items[0].key
	}
	var all []byte
	for _, it := range items {
		all = append(strconv.AppendInt(all, int64(len(it.key)), 10), ':')
		all = append(all, it.key...)
	}
	return hash(string(all))
}

func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

func (w *write) build(body []byte) (*http.Request, error) {
	s := w.sink
	u := *s.url
	if w.shared.URL != "" {
		other, err := url.Parse(w.shared.URL)
		if err != nil || other.Host == "" || other.User != nil {
			return nil, tidemill.Fail(tidemill.Validation, "%s: the encoder's URL is none that can be asked", s.o.Name)
		}
		u = *other
	}
	method := w.shared.Method
	def(&method, s.o.Method)
	r := &http.Request{
		Method: method, URL: &u, Host: u.Host, Header: make(http.Header, len(s.header)+4),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	for name, values := range s.header {
		r.Header[name] = values
	}
	for name, value := range w.shared.Header {
		put(r.Header, name, value)
	}
	if w.trace != nil {
		put(r.Header, tidemill.Traceparent, w.trace.String())
		if w.trace.State != "" {
			put(r.Header, tidemill.Tracestate, w.trace.State)
		}
	}
	if len(body) > 0 {
		// A reader that net/http knows goes out in one write with the header.
		r.ContentLength = int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody()
	} else if repeats(r.Method) {
		// net/http would repeat these by itself where an answer is lost, unless it cannot
		// rewind the body.
		r.Body = io.NopCloser(strings.NewReader(""))
	}
	return r, nil
}

func repeats(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// put sets a header. The two that make net/http repeat a request by itself, where the answer
// is lost, are written in lower case: they mean the same, and net/http does not recognise
// them.
func put(h http.Header, name, value string) {
	name = http.CanonicalHeaderKey(name)
	if name == "Idempotency-Key" || name == "X-Idempotency-Key" {
		name = strings.ToLower(name)
	}
	h[name] = []string{value}
}

// reserved headers are the connection's own, or made by us.
var reserved = map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Trailer": true, "Upgrade": true, "Expect": true}

func checkHeader(name, value string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("header %q has no name that can be sent", name)
	case reserved[http.CanonicalHeaderKey(name)]:
		return fmt.Errorf("header %q is not to be set", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return fmt.Errorf("header %q has a value with a line end or another control character", name) // not the value: it may be a key
	}
	return nil
}

func checkRequest(r *Request) error {
	for name, value := range r.Header {
		if err := checkHeader(name, value); err != nil {
			return err
		}
	}
	if !httpguts.ValidHeaderFieldName(r.Method) && r.Method != "" {
		return errors.New("a method that cannot be sent")
	}
	return nil
}
