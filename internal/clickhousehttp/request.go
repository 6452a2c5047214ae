package clickhousehttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Arg is an argument of a statement, in the URL.
type Arg struct{ name, value string }

// Set is a setting for one request.
func Set(name, value string) Arg { return Arg{name, value} }

// Param is the value of {name:Type} in a statement. For text that may hold any bytes, use
// unhex({name:String}) and HexParam.
func Param(name, value string) Arg {
	return Arg{"param_" + name, strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`, "\x00", `\0`).Replace(value)}
}

// HexParam is a parameter of any bytes, written in hexadecimal.
func HexParam(name, value string) Arg { return Arg{"param_" + name, fmt.Sprintf("%x", value)} }

// Exec runs a statement that returns nothing.
func (c *Conn) Exec(ctx context.Context, statement string, args ...Arg) error {
	resp, end, err := c.post(ctx, "", &payload{bytes: []byte(statement)}, args)
	if err != nil {
		return err
	}
	defer end()
	return c.finish(ctx, resp)
}

// Insert runs an INSERT … FORMAT Native with a block of rows. Nil means that the server
// has stored it. The block is not used after Insert returns.
func (c *Conn) Insert(ctx context.Context, statement string, block []byte, args ...Arg) error {
	body := &payload{bytes: block}
	if c.gzip {
		var b bytes.Buffer
		b.Grow(len(block) / 3)
		z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err == nil {
			_, err = z.Write(block)
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			return fmt.Errorf("compress a block of %d bytes: %w", len(block), err)
		}
		body = &payload{bytes: b.Bytes(), encoding: "gzip"}
	}
	resp, end, err := c.post(ctx, statement, body, args)
	if err != nil {
		return err
	}
	defer end()
	return c.finish(ctx, resp)
}

// Query runs a statement and returns its rows. The server answers when the result is
// complete, so an exception in the middle is an error here and never a short result.
func (c *Conn) Query(ctx context.Context, statement string, args ...Arg) (*Rows, error) {
	args = append([]Arg{{"default_format", "RowBinary"}, {"wait_end_of_query", "1"}}, args...)
	resp, end, err := c.post(ctx, "", &payload{bytes: []byte(statement)}, args)
	if err != nil {
		return nil, err
	}
	return newRows(ctx, resp.Request.Context(), c, resp.Body, end), nil
}

// post sends a request and returns the answer if its status is 200. Call end once it was read.
func (c *Conn) post(ctx context.Context, query string, body *payload, args []Arg) (*http.Response, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	q := make(url.Values, len(args)+1)
	for _, a := range args {
		q.Set(a.name, a.value)
	}
	if query != "" {
		q.Set("query", query)
	}
	u := c.url
	u.RawQuery = q.Encode()
	limited, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	r, err := http.NewRequestWithContext(limited, http.MethodPost, u.String(), nil)
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("make a request: %w", err)
	}
	r.ContentLength = int64(len(body.bytes))
	r.Body, _ = body.open()
	r.GetBody = body.open // the transport uses it if nothing was sent yet
	r.Header.Set("X-ClickHouse-User", c.user)
	if !c.password.IsZero() {
		r.Header.Set("X-ClickHouse-Key", c.password.Reveal())
	}
	r.Header.Set("User-Agent", "tidemill")
	if body.encoding != "" {
		r.Header.Set("Content-Encoding", body.encoding)
	}
	resp, err := c.client.Do(r)
	if err != nil {
		err = c.lost(limited, ctx, err)
		cancel()
		body.inUse.Wait()
		return nil, nil, err
	}
	end := func() {
		_ = resp.Body.Close()
		cancel()
		body.inUse.Wait() // the transport may still be reading the block
	}
	if resp.StatusCode == http.StatusOK && resp.Header.Get(codeHeader) == "" {
		return resp, end, nil
	}
	defer end()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, errorBytes))
	return nil, nil, c.refusal(resp, string(text))
}

// finish reads an answer that should be empty, and finds an exception that came after the
// status was sent.
func (c *Conn) finish(ctx context.Context, resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, errorBytes))
	if e := c.exception(text); e != nil {
		return e
	}
	if err != nil {
		return c.lost(resp.Request.Context(), ctx, err)
	}
	return nil
}

// payload is a request's body that knows when the transport is done with it.
type payload struct {
	bytes    []byte
	encoding string
	inUse    sync.WaitGroup
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
	var seconds int
	if _, err := fmt.Sscanf(h.Get("Retry-After"), "%d", &seconds); err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}
