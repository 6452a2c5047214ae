// Package endpointtest says what every endpoint promises, whatever it speaks. Use it in the
// tests of one: Run is the contract, Busy keeps requests under way.
package endpointtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Busy has n requests under way, whose bodies have begun and do not go on until release; then
// they end early.
func Busy(t testing.TB, h http.Handler, n int, ask func(body io.Reader) *http.Request) (release func()) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			first := true
			h.ServeHTTP(httptest.NewRecorder(), ask(body(func([]byte) (int, error) {
				if first {
					first = false
					begun <- struct{}{}
					<-end
				}
				return 0, io.ErrUnexpectedEOF
			})))
		})
		<-begun
	}
	return func() {
		close(end)
		all.Wait()
	}
}

type body func([]byte) (int, error)

func (f body) Read(b []byte) (int, error) { return f(b) }
