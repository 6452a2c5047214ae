package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/serve/admin"
)

// How viewers look: in a process of their own, at the product or at copies of its answers, which that
// process serves itself. The second takes from the machine what browsers would, and nothing from the
// product: so the two tell what viewers cost the product.
const (
	atProduct = "product"
	atCopies  = "copies"
)

// seen are the pages that viewers load in turn, and streamed what they listen to.
var seen = []string{"/console/", "/console/queues", "/console/queues/queue-50", "/console/queues/queue-50/jobs", "/console/dead", "/console/owners"}

const streamed = admin.Prefix + "stream?topic=overview&topic=queue:queue-50"

// watchers starts ten viewers in a process of their own. They look until it is stopped.
func (s *site) watchers(ctx context.Context, at string) (*process.Program, error) {
	cmd, err := rounds.Self(ctx, "console", at, s.URL)
	if err != nil {
		return nil, err
	}
	return process.Listening(cmd)
}

// playPart are the viewers: of the product at an address, or of copies of it.
func playPart(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("want what viewers look at, and its address")
	}
	l := &looker{url: args[1], client: http.DefaultClient}
	l.client.Transport = &http.Transport{MaxIdleConnsPerHost: 2 * viewers}
	if args[0] == atCopies {
		copies, err := l.copy(ctx)
		if err != nil {
			return err
		}
		defer func() { copies.CloseClientConnections(); copies.Close() }() // streams go on for ever
		l.url = copies.URL
	}
	fmt.Printf("listening %s\nready\n", l.url)
	l.watch(ctx)
	return nil
}

// looker loads pages at an address.
type looker struct {
	url    string
	client *http.Client
}

func (l *looker) open(ctx context.Context, path string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := l.client.Do(r)
	if err == nil && resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		err = fmt.Errorf("%s is answered %s", path, resp.Status)
	}
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// load loads a page and forgets it.
func (l *looker) load(ctx context.Context, path string) error {
	body, err := l.open(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	return err
}

// watch has ten viewers load a page each second and listen to the stream, until ctx ends.
func (l *looker) watch(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range viewers {
		wg.Go(func() { _ = l.load(ctx, streamed) }) // ctx ends it
		wg.Go(func() {
			wait := time.NewTimer(time.Duration(i) * time.Second / viewers) // they do not look at the same moment
			defer wait.Stop()
			for n := i; ; n++ {
				select {
				case <-wait.C:
				case <-ctx.Done():
					return
				}
				wait.Reset(time.Second)
				_ = l.load(ctx, seen[n%len(seen)])
			}
		})
	}
	wg.Wait()
}

// copy serves copies of all that viewers look at: of the stream its first events, once a second.
func (l *looker) copy(ctx context.Context) (*httptest.Server, error) {
	pages := map[string][]byte{}
	for _, path := range seen {
		body, err := l.open(ctx, path)
		if err != nil {
			return nil, err
		}
		pages[path], err = io.ReadAll(body)
		if err = errors.Join(err, body.Close()); err != nil {
			return nil, err
		}
	}
	stream, err := l.open(ctx, streamed)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var events []byte
	for lines, ends := bufio.NewReader(stream), 0; ends < 2; { // one of each topic
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if events = append(events, line...); len(line) == 1 {
			ends++
		}
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, admin.Prefix) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(pages[r.URL.Path])
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if _, err := w.Write(events); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	})), nil
}
