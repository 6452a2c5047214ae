package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidemill/tidemill/serve/admin"
)

// client talks to the API of a running instance, or of one that was opened for it.
type client struct {
	http  http.Client
	base  string
	token string
	none  error // why there is no token; nil: there is one
	live  bool  // the instance runs; else its data were opened to look at them
	close func() error
}

// newClient talks to the instance at a URL. It follows no redirect: the API sends none, and the
// token is for nobody else.
func newClient(base string) *client {
	return &client{base: base, live: true, close: func() error { return nil },
		http: http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// apiError is an answer of the API to what it could not do, or not all.
type apiError struct {
	Text   string `json:"detail"`
	Done   json.RawMessage
	status int
}

func (e *apiError) Error() string { return e.Text }

// errStranger says that something else than an instance answered.
var errStranger = errors.New("is it a Tidemill instance?")

// unreachable says whether nobody listens there: nothing was asked yet.
func unreachable(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// unknown says whether the instance does not know our token.
func unknown(err error) bool {
	said, ok := errors.AsType[*apiError](err)
	return ok && (said.status == http.StatusUnauthorized || said.status == http.StatusTooManyRequests)
}

// do sends a request, with lines of JSON or other text if any, and returns an answer of
// status 200, 201 or 202.
func (c *client) do(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Response, error) {
	u := c.base + admin.Prefix + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-ndjson")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, fmt.Errorf("ask %s: %w", c.base, err)
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusCreated || resp.StatusCode == http.StatusAccepted {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	said := &apiError{status: resp.StatusCode}
	if json.Unmarshal(text, said) == nil && said.Text != "" {
		if c.none != nil && unknown(said) {
			said.Text = fmt.Sprintf("the API needs its token, and %v: say where the instance has its data (--data), or set TIDEMILL_TOKEN", c.none)
		}
		return nil, said
	}
	return nil, fmt.Errorf("%s answered %s: %w", c.base, resp.Status, errStranger)
}

// get reads one JSON answer into v.
func (c *client) get(ctx context.Context, path string, query url.Values, v any) error {
	return c.one(ctx, http.MethodGet, path, query, nil, v)
}

// post sends a form and reads one JSON answer into v.
func (c *client) post(ctx context.Context, path string, form url.Values, v any) error {
	return c.one(ctx, http.MethodPost, path, form, nil, v)
}

func (c *client) one(ctx context.Context, method, path string, query url.Values, body io.Reader, v any) error {
	resp, err := c.do(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "application/json" {
		return fmt.Errorf("%s answered with %s: %w", c.base, cmp.Or(kind, "no type"), errStranger)
	}
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		return fmt.Errorf("the answer of %s was cut off: %w", c.base, err)
	}
	return nil
}

// lines calls each with every line of a listing.
func (c *client) lines(ctx context.Context, path string, query url.Values, each func([]byte) error) error {
	resp, err := c.do(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewReaderSize(resp.Body, 256<<10)
	for {
		line, err := in.ReadBytes('\n')
		if bytes.HasPrefix(line, []byte(`{"problem":`)) { // nothing that is listed begins so
			var said struct{ Problem apiError }
			_ = json.Unmarshal(line, &said)
			return fmt.Errorf("the listing was cut off: %w", &said.Problem)
		}
		if len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			if err := each(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the listing was cut off: %w", err)
		}
	}
}

// address makes a URL of what people write.
func address(server string) string {
	server = strings.TrimRight(server, "/")
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	return server
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(asJSON(w))
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// lineTo prints each line of a listing as it came.
func lineTo(w io.Writer) func([]byte) error {
	w = asJSON(w)
	return func(line []byte) error {
		_, err := w.Write(line)
		return err
	}
}
