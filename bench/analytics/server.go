package analytics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/product"
)

// A Server is the binary under load.
type Server struct{ *product.Product }

// Start starts the binary with a folder for its data, and settings in the form of its environment.
func Start(ctx context.Context, bin, data string, settings ...string) (*Server, error) {
	cmd := exec.CommandContext(ctx, bin, "run", "analytics", "--no-auth", "--data", data, "--listen", "127.0.0.1:0", "--project", "bench="+load.Key)
	cmd.Env = append(append(os.Environ(), "TIDEMILL_LOG_LEVEL=warn"), settings...)
	p, err := process.Listening(cmd)
	if err != nil {
		return nil, err
	}
	return &Server{&product.Product{Program: p}}, nil
}

// Work is what some work took.
type Work struct {
	Rate float64 // events a second
	CPU  float64 // µs an event of the server
}

// Measure times do, the work on so many events, and reads what it cost the server.
func (s *Server) Measure(events int, do func() error) (w Work, err error) {
	before, from := process.CPU(s.PID()), time.Now()
	err = do()
	w.Rate = float64(events) / time.Since(from).Seconds()
	w.CPU = process.Micros(process.CPU(s.PID())-before, events)
	return w, err
}

// Send posts every body and returns when all were answered 200.
func (s *Server) Send(bodies [][]byte, conns int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
	var next atomic.Int64
	var failed atomic.Value
	var g sync.WaitGroup
	for range conns {
		g.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(bodies) {
					return
				}
				if err := post(client, s.URL+"/batch/", bodies[i]); err != nil {
					failed.Store(err)
				}
			}
		})
	}
	g.Wait()
	err, _ := failed.Load().(error)
	return err
}

func post(client *http.Client, url string, body []byte) error {
	resp, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

// Drained waits until nothing is in flight, and checks the books.
func (s *Server) Drained() error {
	for {
		all, balanced, err := s.Books()
		if err != nil {
			return err
		}
		switch own := all[0]; {
		case own.InFlight > 0:
			time.Sleep(100 * time.Millisecond) // between two polls: counting costs the server, too
		case !balanced || own.Accepted != own.Delivered:
			return fmt.Errorf("the books do not balance: %+v", all)
		default:
			return nil
		}
	}
}
