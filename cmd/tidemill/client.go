package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/serve/admin"
)

const defaultServer = "http://127.0.0.1:8484"

// remote are the flags of every command that asks an instance.
type remote struct {
	settings
	Server string `help:"The running instance. Default: http://127.0.0.1:8484. When none runs there, the command opens --data itself." env:"TIDEMILL_SERVER" placeholder:"URL"`
	Token  string `help:"The API's key, where it has one; better set in TIDEMILL_TOKEN." env:"TIDEMILL_TOKEN" placeholder:"KEY"`
	JSON   bool   `help:"Print JSON: one object, or one a line for listings."`
}

// client talks to the API of a running instance, or of one that it opens itself.
type client struct {
	http  http.Client
	base  string
	token string
	close func() error
}

// open finds the instance. Somebody who named a server wants that one and no other.
func (r *remote) open(ctx context.Context, e env) (*client, error) {
	base := strings.TrimSuffix(r.Server, "/")
	named := base != ""
	if !named {
		base = defaultServer
	}
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	c := &client{base: base, token: r.Token, close: func() error { return nil }}
	resp, err := c.do(ctx, http.MethodGet, "status", nil, nil)
	if err == nil {
		return c, resp.Body.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, err
	}
	if named {
		return nil, fmt.Errorf("nothing runs at %s: start it with `tidemill run`, or leave --server out to open --data", base)
	}
	cfg, err := r.load(e, nil)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(connect.DatabasePath(cfg.Data)); err != nil {
		return nil, fmt.Errorf("nothing runs at %s, and %s holds no data: start with `tidemill run`, or name the place by --server or --data", base, cfg.Data)
	}
	in, err := connect.Open(ctx, cfg, connect.Options{Version: version, Log: logger(cfg, e)})
	if err != nil {
		return nil, err
	}
	return &client{http: http.Client{Transport: inProcess{in.Handler}}, base: "http://localhost", token: cfg.Admin.Key.Reveal(), close: in.Close}, nil
}

// do sends a request and returns an answer of status 200.
func (c *client) do(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Response, error) {
	u := c.base + admin.Prefix + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var said struct{ Error string }
	if json.Unmarshal(text, &said) == nil && said.Error != "" {
		return nil, errors.New(said.Error)
	}
	return nil, fmt.Errorf("%s answered %s: is it a Tidemill instance?", c.base, resp.Status)
}

// get reads one JSON answer into v.
func (c *client) get(ctx context.Context, path string, query url.Values, v any) error {
	resp, err := c.do(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(v)
}

// post sends a form and reads one JSON answer into v.
func (c *client) post(ctx context.Context, path string, form url.Values, v any) error {
	resp, err := c.do(ctx, http.MethodPost, path, form, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(v)
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
		if len(line) > 0 {
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

// ask opens the instance, runs do, and closes what was opened.
func (r *remote) ask(ctx context.Context, e env, do func(*client) error) error {
	c, err := r.open(ctx, e)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.close())
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
