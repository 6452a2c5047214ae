package operation

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// InProcess is a transport to a handler in this very process: the API without a port.
type InProcess struct {
	Handler http.Handler
	Begun   sync.WaitGroup // requests that the handler works on
}

// Inside is a client of an API in this process, whose requests are those of the caller whom their
// context carries.
func Inside(api http.Handler) *Client {
	return &Client{HTTP: &http.Client{Transport: &InProcess{Handler: api}}, Base: "http://localhost"}
}

// RoundTrip runs the handler; its answer is streamed.
func (t *InProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	a := &answer{header: http.Header{}, body: w, begun: make(chan struct{})}
	r := req.Clone(req.Context())
	r.RemoteAddr, r.Host, r.RequestURI = "127.0.0.1:0", "localhost", req.URL.RequestURI()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	t.Begun.Go(func() { a.run(t.Handler, r) })
	select {
	case <-a.begun:
		return &http.Response{StatusCode: a.status, Status: fmt.Sprint(a.status, " ", http.StatusText(a.status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: a.sent, Body: body, ContentLength: -1, Request: req}, nil
	case <-req.Context().Done():
		_ = body.Close()
		return nil, req.Context().Err()
	}
}

// answer is the http.ResponseWriter of InProcess. One goroutine writes it.
type answer struct {
	header http.Header
	body   *io.PipeWriter
	begun  chan struct{} // closed when status and sent are set
	status int
	sent   http.Header
}

// run calls the handler and ends the answer: cut off where the handler cut it off.
func (a *answer) run(h http.Handler, r *http.Request) {
	defer func() {
		p := recover()
		err, _ := p.(error)
		switch {
		case p == nil:
			a.WriteHeader(http.StatusOK)
			_ = a.body.Close()
		case errors.Is(err, http.ErrAbortHandler):
			a.WriteHeader(http.StatusInternalServerError)
			_ = a.body.CloseWithError(io.ErrUnexpectedEOF)
		default:
			panic(p)
		}
	}()
	h.ServeHTTP(a, r)
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}
