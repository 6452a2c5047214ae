package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// client talks to the API of a running instance, or of one that was opened for it.
type client struct {
	operation.Client
	none  error // why there is no token; nil: there is one
	live  bool  // the instance runs; else its data were opened to look at them
	close func() error
}

// newClient talks to the instance at a URL. It follows no redirect: the API sends none, and the
// token is for nobody else.
func newClient(base string) *client {
	return &client{live: true, close: func() error { return nil }, Client: operation.Client{Base: base,
		HTTP: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}}
}

// unreachable says whether nobody listens there: nothing was asked yet.
func unreachable(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// answered says whether the API answered with a problem of one of these statuses.
func answered(err error, statuses ...int) bool {
	p, ok := errors.AsType[*operation.Problem](err)
	for _, s := range statuses {
		if ok && p.Status == s {
			return true
		}
	}
	return false
}

// unknown says whether the instance does not know our token.
func unknown(err error) bool {
	return answered(err, http.StatusUnauthorized, http.StatusTooManyRequests)
}

// notFound says whether the API knows nothing of what was asked for.
func notFound(err error) bool { return answered(err, http.StatusNotFound) }

// explain says why there is no token, where the instance wants one.
func (c *client) explain(err error) error {
	if p, ok := errors.AsType[*operation.Problem](err); ok && c.none != nil && unknown(err) {
		p.Detail = fmt.Sprintf("the API needs its token, and %v: name the data folder of the instance (--data), or set TIDEMILL_TOKEN", c.none)
	}
	return err
}

// asker is a command that asks an instance.
type asker interface {
	ask(ctx context.Context, e env, do func(*client) error) error
	json() bool
}

// show asks for one answer, and prints it: as it came with --json, else for people.
func show[Q, A any](ctx context.Context, e env, c asker, op operation.Operation[Q, A], q *Q, print func(*client, *A) error) error {
	return c.ask(ctx, e, func(a *client) error {
		_, err := shown(ctx, e, c, a, op, q, func(v *A) error { return print(a, v) })
		return err
	})
}

// shown is show where the instance is known, and the answer is wanted too.
func shown[Q, A any](ctx context.Context, e env, c asker, a *client, op operation.Operation[Q, A], q *Q, print func(*A) error) (v A, err error) {
	raw, err := op.Raw(ctx, &a.Client, q)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, err
	}
	if c.json() {
		return v, printJSON(e.out, raw)
	}
	return v, print(&v)
}

// list asks for a listing, and prints it: as it comes with --json, else in a table.
func list[Q, A any](ctx context.Context, e env, c asker, op operation.Listing[Q, A], q *Q, t *table, row func(*A) []string) error {
	return c.ask(ctx, e, func(a *client) error { return listed(ctx, e, c.json(), a, op, q, t, row) })
}

// listed is list where the instance is known.
func listed[Q, A any](ctx context.Context, e env, asJSON bool, a *client, op operation.Listing[Q, A], q *Q, t *table, row func(*A) []string) error {
	if asJSON {
		return printLines(ctx, e, a, op, q)
	}
	t.out = e.out
	for item, err := range op.Each(ctx, &a.Client, q) {
		if err == nil {
			err = t.row(row(item)...)
		}
		if err != nil {
			return t.end(err)
		}
	}
	return t.end(nil)
}

// printLines prints each line of a listing as it came.
func printLines[Q, A any](ctx context.Context, e env, a *client, op operation.Listing[Q, A], q *Q) error {
	out := asJSON(e.out)
	for line, err := range op.Raw(ctx, &a.Client, q) {
		if err == nil {
			_, err = out.Write(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
