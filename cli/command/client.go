package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// Client talks to the API of a running instance, or of one that was opened for it.
type Client struct {
	operation.Client
	None  error // why there is no token; nil: there is one
	Live  bool  // the instance runs; else its data were opened to look at them
	close func() error
}

// patience is how long a command goes on with a request that is one too many for the instance: a minute
// is longer than it takes until there are reads and changes again, and than most dear ones take.
const patience = time.Minute

// newClient talks to the instance at a URL. It follows no redirect: the API sends none, and the
// token is for nobody else.
func newClient(base string) *Client {
	return &Client{Live: true, close: func() error { return nil }, Client: operation.Client{Base: base, Patience: patience,
		HTTP: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}}
}

// Close closes what was opened.
func (c *Client) Close() error { return c.close() }

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

// NotFound says whether the API knows nothing of what was asked for.
func NotFound(err error) bool { return answered(err, http.StatusNotFound) }

// Explain says why there is no token, where the instance wants one.
func (c *Client) Explain(err error) error {
	if p, ok := errors.AsType[*operation.Problem](err); ok && c.None != nil && unknown(err) {
		p.Detail = fmt.Sprintf("the API needs its token, and %v: name the data folder of the instance (--data), or set TIDEMILL_TOKEN", c.None)
	}
	return err
}

// Asker is a command that asks an instance.
type Asker interface {
	Ask(ctx context.Context, e Env, do func(*Client) error) error
	printsJSON() bool
}

// Show asks for one answer, and prints it: as it came with --json, else for people.
func Show[Q, A any](ctx context.Context, e Env, c Asker, op operation.Operation[Q, A], q *Q, print func(*Client, *A) error) error {
	return c.Ask(ctx, e, func(a *Client) error {
		_, err := Shown(ctx, e, c, a, op, q, func(v *A) error { return print(a, v) })
		return err
	})
}

// Shown is show where the instance is known, and the answer is wanted too.
func Shown[Q, A any](ctx context.Context, e Env, c Asker, a *Client, op operation.Operation[Q, A], q *Q, print func(*A) error) (v A, err error) {
	raw, err := op.Raw(ctx, &a.Client, q)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, err
	}
	if c.printsJSON() {
		return v, PrintJSON(e.Out, raw)
	}
	return v, print(&v)
}

// List asks for a listing, and prints it: as it comes with --json, else in a table.
func List[Q, A any](ctx context.Context, e Env, c Asker, op operation.Listing[Q, A], q *Q, t *Table, row func(*A) []string) error {
	return c.Ask(ctx, e, func(a *Client) error { return Listed(ctx, e, c.printsJSON(), a, op, q, t, row) })
}

// Listed is list where the instance is known.
func Listed[Q, A any](ctx context.Context, e Env, asJSON bool, a *Client, op operation.Listing[Q, A], q *Q, t *Table, row func(*A) []string) error {
	if asJSON {
		return PrintLines(ctx, e, a, op, q)
	}
	t.Out = e.Out
	for item, err := range op.Each(ctx, &a.Client, q) {
		if err == nil {
			err = t.Row(row(item)...)
		}
		if err != nil {
			return Ended(e, t.End(err))
		}
	}
	return t.End(nil)
}

// Ended takes a listing that ends early for one that was printed: what is there is right. How much was looked at is
// said on standard error, and what looks further.
func Ended(e Env, err error) error {
	rest, early := errors.AsType[*operation.Rest](err)
	if !early {
		return err
	}
	looked := "as many entries as one request may look at"
	if rest.Looked > 0 {
		looked = Count(rest.Looked, "entry", "entries")
	}
	_, err = fmt.Fprintf(e.Err, "Looked at %s; there may be more behind them. A narrower filter looks further.\n", looked)
	return err
}

// PrintLines prints each line of a listing as it came.
func PrintLines[Q, A any](ctx context.Context, e Env, a *Client, op operation.Listing[Q, A], q *Q) error {
	return Ended(e, operation.Print(ctx, op.Description, &a.Client, q, AsJSON(e.Out)))
}

// Address makes a URL of what people write.
func Address(server string) string {
	server = strings.TrimRight(server, "/")
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	return server
}

// PrintJSON prints a value as a line of JSON.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(AsJSON(w))
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
