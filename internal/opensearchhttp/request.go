package opensearchhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/tidemill/tidemill"
)

// Do sends a request with a JSON body, or none, and returns the answer's body if its status is
// in the 200s. The path begins with / and has its query; data in it has to be escaped.
func (c *Conn) Do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	_, answer, err := c.do(ctx, method, path, "application/json", body)
	return answer, err
}

// Bulk sends lines of JSON. The body is not used after Bulk returns.
func (c *Conn) Bulk(ctx context.Context, path string, lines []byte) ([]byte, error) {
	_, answer, err := c.do(ctx, http.MethodPost, path, "application/x-ndjson", lines)
	return answer, err
}

// gzipFrom is how many bytes are worth packing.
const gzipFrom = 1 << 10

func (c *Conn) do(ctx context.Context, method, path, contentType string, body []byte) (http.Header, []byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	sent := &payload{bytes: body}
	defer sent.inUse.Wait() // once the request is cancelled
	limited, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(limited, method, c.url.String()+path, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("make a request to the search server: %w", unwrapURL(err))
	}
	switch {
	case !c.key.IsZero():
		r.Header.Set("Authorization", "ApiKey "+c.key.Reveal())
	case c.user != "":
		r.SetBasicAuth(c.user, c.password.Reveal())
	}
	r.Header.Set("User-Agent", "tidemill")
	if len(body) > 0 {
		r.Header.Set("Content-Type", contentType)
		if c.gzip && len(body) >= gzipFrom {
			if sent.bytes, err = pack(body); err != nil {
				return nil, nil, err
			}
			r.Header.Set("Content-Encoding", "gzip")
		}
		r.ContentLength = int64(len(sent.bytes))
		r.Body, _ = sent.open()
		r.GetBody = sent.open // the transport uses it if nothing was sent yet
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return nil, nil, c.lost(limited, ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, errorBytes))
		return resp.Header, nil, c.refusal(resp, text)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, c.max+1))
	switch {
	case err != nil:
		return resp.Header, nil, c.lost(limited, ctx, err)
	case int64(len(answer)) > c.max:
		return resp.Header, nil, tidemill.Fail(tidemill.Transient, "ask the search server at %s: the answer has more than %d bytes; ask for less in one request", c.url.Host, c.max)
	}
	return resp.Header, answer, nil
}

func pack(body []byte) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(len(body) / 4)
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(body)
		err = errors.Join(err, z.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("compress %d bytes: %w", len(body), err)
	}
	return b.Bytes(), nil
}

// payload is a request's body that knows when the transport is done with it.
type payload struct {
	bytes []byte
	inUse sync.WaitGroup
}

func (p *payload) open() (io.ReadCloser, error) {
	p.inUse.Add(1)
	return &reading{Reader: bytes.NewReader(p.bytes), done: sync.OnceFunc(p.inUse.Done)}, nil
}

type reading struct {
	*bytes.Reader
	done func()
}

func (r *reading) Close() error { r.done(); return nil }

// errTimeout is why a request ended that took longer than Options.Timeout.
var errTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string { return "no answer in time" }
func (timeoutError) Timeout() bool { return true }

// retryAfter reads a Retry-After header in seconds, at most an hour.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}
