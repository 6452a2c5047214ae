package analyticsingest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/serve/request"
)

// pipes is a listener without a network, so that time can be faked.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// slowly sends a body in pieces, one every pause, and returns the answer's status (0: the
// line was cut) and how long it took.
func slowly(t *testing.T, d *testIngest, length int, piece string, pause time.Duration) (status int, took time.Duration) {
	l := &pipes{make(chan net.Conn), make(chan struct{})}
	s := &http.Server{Handler: d}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	client, server := net.Pipe()
	l.conns <- server
	start := time.Now()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if _, err := fmt.Fprintf(client, "POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", length); err != nil {
			return
		}
		for n := 0; n < length; n += len(piece) {
			time.Sleep(pause)
			if _, err := io.WriteString(client, piece); err != nil {
				return
			}
		}
	}()
	r, err := http.ReadResponse(bufio.NewReader(client), nil)
	took = time.Since(start)
	if err == nil {
		status = r.StatusCode
		_, _ = io.Copy(io.Discard, r.Body)
	}
	_ = client.Close()
	<-sent
	_ = s.Close()
	<-served
	time.Sleep(time.Second) // fake: a server that hangs up lingers for half of one
	return status, took
}

func TestSlowBodies(t *testing.T) {
	for _, c := range []struct {
		name   string
		length int
		piece  string
		pause  time.Duration
		status int
		took   time.Duration
	}{
		{"a byte a second is not waited for", 1000, "x", time.Second, 408, request.ChunkTime},
		{"nothing is not waited for", 1000, "x", time.Hour, 408, request.ChunkTime},
		{"1 MB in 64 KiB pieces, 4 s each, is", 1 << 20, strings.Repeat(" ", 64<<10), 4 * time.Second, 400, 64 * time.Second},
		{"4 MB in 50 KiB pieces, 3 s each, is not: a large one is to come faster", 4 << 20, strings.Repeat(" ", 50<<10), 3 * time.Second, 408, 71 * time.Second},
		{"19 MB in 128 KiB pieces, 1.5 s each, is not: it takes too long in all", 19 << 20, strings.Repeat(" ", 128<<10), 1500 * time.Millisecond, 408, 2 * time.Minute},
		{"1 MB in 64 KiB pieces, 6 s each, is not", 1 << 20, strings.Repeat(" ", 64<<10), 6 * time.Second, 408, request.ChunkTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newTestIngest(t)
				status, took := slowly(t, d, c.length, c.piece, c.pause)
				if status != c.status || took != c.took {
					t.Errorf("got %d after %s; want %d after %s", status, took, c.status, c.took)
				}
				if out := d.Bodies.Out(); out != 0 {
					t.Errorf("%d bytes were not given back", out)
				}
			})
		})
	}
}

// The deadline of the body must not end the request while the queue works on it.
func TestTheDeadlineOfTheBodyIsNotThatOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &contextMeter{}
		d := newTestIngest(t, func(o *Options) { o.Meter = m })
		d.intake.delay = 9 * time.Second
		body := posted(`{"event":"e","distinct_id":"u","x":"` + strings.Repeat("x", 1000) + `"}`)
		status, took := slowly(t, d, len(body), body, 5*time.Second)
		if status != 200 || took != 14*time.Second {
			t.Errorf("got %d after %s; want 200 after 14s", status, took)
		}
		if m.ended != nil {
			t.Errorf("the request had ended when its events were billed: %v", m.ended)
		}
	})
}

func TestAQueueThatDoesNotAnswerIsBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestIngest(t)
		d.intake.delay = time.Hour
		start := time.Now()
		w := d.send("/batch/", posted(ph))
		if w.Code != 503 || time.Since(start) != addTimeout {
			t.Errorf("got %d after %s; want 503 after %s", w.Code, time.Since(start), addTimeout)
		}
	})
}
