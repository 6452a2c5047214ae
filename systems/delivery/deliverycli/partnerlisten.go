package deliverycli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tidemill/tidemill/cli/command"
)

type partnerListenCmd struct {
	Listen string        `help:"Address to listen on." default:"127.0.0.1:9191" placeholder:"ADDR"`
	Status int           `help:"Answer every request with this status." default:"200"`
	Wait   time.Duration `help:"How long each answer takes." placeholder:"TIME"`
	Count  int           `help:"Stop after this many requests. Default: never." placeholder:"N"`
}

// Help is shown by tidemill partner listen --help.
func (c *partnerListenCmd) Help() string {
	return `A partner for tests: it prints each request, with the id that a partner de-duplicates by, and answers as the flags say. Add it to the configuration, with allowHttp and allowPrivate because it is on this machine:

  delivery:
    partners:
      - name: demo
        endpoint: http://127.0.0.1:9191/events
        allowHttp: true
        allowPrivate: [127.0.0.0/8]

  tidemill partner listen
  tidemill partner listen --status 503        a partner that fails`
}

// maxShown is how much of a request's body is read and printed.
const maxShown = 64 << 10

func (c *partnerListenCmd) Run(ctx context.Context, e command.Env) error {
	if c.Status < 200 || c.Status > 599 {
		return command.UsageError{Err: fmt.Errorf("--status %d is not a status to answer with: want 200 to 599", c.Status)}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("%w; another address: --listen", err)
	}
	var mu sync.Mutex // guards the output and n
	n := 0
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxShown))
		if err != nil {
			return
		}
		select {
		case <-time.After(c.Wait):
		case <-r.Context().Done():
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(e.Out, "%s %s id %s\n%s\n", r.Method, command.Printable(r.URL.Path), command.Printable(r.Header.Get("Idempotency-Key")), command.Printable(string(body)))
		w.WriteHeader(c.Status)
		if n++; n == c.Count {
			stop()
		}
	})}
	_, _ = fmt.Fprintf(e.Out, "a partner that answers %d, on http://%s. Stop with Ctrl-C.\n", c.Status, l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err = server.Shutdown(closing)
	if ended := <-ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
