package main

import (
	"io"
	"net/http"
)

// inProcess is a transport to a handler in this very process: the API without a port.
type inProcess struct{ handler http.Handler }

// RoundTrip runs the handler; its answer is streamed.
func (t inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	a := &answer{header: http.Header{}, body: w, begun: make(chan struct{})}
	r := req.Clone(req.Context())
	r.RemoteAddr, r.Host, r.RequestURI = "127.0.0.1:0", "localhost", req.URL.RequestURI()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	go func() {
		defer func() {
			if p := recover(); p != nil { // a listing that was cut off
				a.WriteHeader(http.StatusInternalServerError)
				_ = w.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			a.WriteHeader(http.StatusOK)
			_ = w.Close()
		}()
		t.handler.ServeHTTP(a, r)
	}()
	select {
	case <-a.begun:
		return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: a.header, Body: body, ContentLength: -1, Request: req}, nil
	case <-req.Context().Done():
		_ = body.Close()
		return nil, req.Context().Err()
	}
}

// answer is the http.ResponseWriter of inProcess. One goroutine writes it.
type answer struct {
	header http.Header
	body   *io.PipeWriter
	status int
	begun  chan struct{}
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
		close(a.begun)
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}
