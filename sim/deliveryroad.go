package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"time"
)

// roads are the connections of one process to the partners: an http.RoundTripper behind the
// gate.
type roads struct {
	w *deliveryWorld
	p *process
}

var errRefused = errors.New("sim: connection refused")

// wire is a connection without any knowledge.
type wire struct{ net.Conn }

// RoundTrip sends a request. It may arrive after its sender has given up.
func (v roads) RoundTrip(r *http.Request) (*http.Response, error) {
	v.w.book.Lock()
	c, err := v.read(r)
	v.w.book.Unlock()
	if err != nil {
		v.w.fault("a request to %s: %v", r.URL.Host, err)
		return nil, err
	}
	v.w.book.Lock()
	for i, l := range c.legs {
		c.hand[i] = l.hand
		l.sends(c)
	}
	v.w.book.Unlock()
	sent := func() {
		if t := httptrace.ContextClientTrace(r.Context()); t != nil && t.GotConn != nil {
			t.GotConn(httptrace.GotConnInfo{Conn: wire{}})
		}
	}
	type outcome struct {
		reply
		err error
	}
	came := make(chan outcome, 1)
	v.w.done.Go(func() {
		var o outcome
		o.err = v.w.g.do(v.p, "send to "+c.f.name, c.key, func() error { o.reply = c.f.take(c); return nil })
		came <- o
	})
	var o outcome
	select {
	case o = <-came:
	case <-r.Context().Done():
		return nil, v.late(r.Context(), c, sent)
	}
	switch {
	case o.err != nil && o.reply.took == nil: // it never arrived
		return nil, errRefused
	case o.err != nil || o.cut:
		sent()
		return nil, io.ErrUnexpectedEOF
	case o.status == 0:
		o.lag = time.Hour
	}
	lag := time.NewTimer(o.lag)
	defer lag.Stop()
	select {
	case <-lag.C:
	case <-r.Context().Done():
		return nil, v.late(r.Context(), c, sent)
	}
	sent()
	v.heard(c, &o.reply)
	h := http.Header{}
	if o.after > 0 {
		h.Set("Retry-After", fmt.Sprint(o.after))
	}
	return &http.Response{StatusCode: o.status, Header: h, Body: io.NopCloser(strings.NewReader(o.body)), Request: r}, nil
}

// late is the end of a request's time. Several may end at the same instant.
func (v roads) late(ctx context.Context, c *call, sent func()) error {
	sent()
	v.w.g.turn(v.p, "give up", c.f.name+c.key)
	return ctx.Err()
}

// heard notes what the process knows from an answer.
func (v roads) heard(c *call, r *reply) {
	v.w.book.Lock()
	defer v.w.book.Unlock()
	for i, l := range c.legs {
		switch {
		case r.took[i]:
			if l.hand == c.hand[i] {
				l.knows = v.p
			}
		case r.not[i] || r.status != 200:
			l.doubts--
			l.failed = time.Now()
		}
		if r.status == 401 {
			l.free++
		}
		if r.after > 0 {
			l.notBefore, l.asks = time.Now().Add(time.Duration(r.after)*time.Second), v.p
		}
	}
}

// read finds the events of a request.
func (v roads) read(r *http.Request) (*call, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(v.w.fars, func(f *far) bool { return f.name+".test" == r.URL.Host })
	if i < 0 {
		return nil, fmt.Errorf("there is no such partner")
	}
	c := &call{f: v.w.fars[i], p: v.p, body: body}
	_, c.key = keyIn(r.Header)
	parts := [][]byte{body}
	if c.f.items > 1 {
		var b struct{ Events []json.RawMessage }
		if err := json.Unmarshal(body, &b); err != nil || len(b.Events) > c.f.items {
			return nil, fmt.Errorf("%d events in %s: %v", len(b.Events), body, err)
		}
		parts = nil
		for _, e := range b.Events {
			parts = append(parts, e)
		}
	}
	for _, part := range parts {
		e := v.w.of(part)
		if e == nil || e.legs[c.f.name] == nil {
			return nil, fmt.Errorf("it was sent what it must not have: %s", part)
		}
		if c.f.items == 1 {
			if !e.legs[c.f.name].fits(part) || c.key != e.job {
				return nil, fmt.Errorf("%s under the key %q; want %s under %q", part, c.key, e.payload, e.job)
			}
		} else if want := fmt.Sprintf(`{"id":%q,"n":%d}`, e.job, e.n); string(part) != want {
			return nil, fmt.Errorf("it was sent %s, want %s", part, want)
		}
		c.legs = append(c.legs, e.legs[c.f.name])
	}
	c.hand = make([]int, len(c.legs))
	return c, nil
}

// keyIn finds the key by which a partner de-duplicates. Its name may be in lower case.
func keyIn(h http.Header) (name, key string) {
	for name, values := range h {
		if strings.EqualFold(name, "Idempotency-Key") && len(values) == 1 {
			return name, values[0]
		}
	}
	return "", ""
}
