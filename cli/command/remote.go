package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/backup"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// Remote are the flags of every command that asks an instance.
type Remote struct {
	Settings
	Server string `help:"The running instance. Default: where the configuration listens, http://127.0.0.1:8484. If none runs there, or one on other data than --data, the command opens the data itself." env:"TIDEMILL_SERVER" placeholder:"URL"`
	Token  string `help:"The API's token; safer in the environment, where others do not see it. Default: from the configuration, or from the data folder for an instance on this machine." env:"TIDEMILL_TOKEN" placeholder:"TOKEN"`
	JSON   bool   `help:"Print JSON: one object, or one a line for listings."`

	About string `kong:"-"` // a system that the command is about: its data are opened though nothing configures it
}

// open finds the instance. Somebody who named a server wants that one and no other.
func (r *Remote) open(ctx context.Context, e Env) (*Client, error) {
	if r.Server != "" {
		return r.named(ctx, e)
	}
	cfg, err := r.Load(e, nil)
	if err != nil {
		return nil, err
	}
	c := newClient(Listener(cfg))
	if err := c.Know(r.Token, cfg); err != nil {
		return nil, err
	}
	if c.Token != "" && cfg.ByFile("listen") && !thisMachine(c.Base) && !strings.HasPrefix(c.Base, "https://") {
		return nil, fmt.Errorf("%s says that the instance is at %s: the API's token is not sent to another machine without TLS because a file names it. If you mean that machine, say so: --server %s (TIDEMILL_SERVER)", cfg.From["listen"], c.Base, c.Base)
	}
	its, err := api.GetStatus.Call(ctx, &c.Client, &operation.None{})
	err = c.Explain(err)
	switch {
	case err == nil && (r.Data == "" || SameFile(its.Data, cfg.Data)):
		return c, nil
	case err == nil || unreachable(err) || errors.Is(err, operation.ErrStranger):
	case r.Data != "" && unknown(err): // one on other data has another token
	default:
		return c, err
	}
	if err := backup.Usable(cfg.Data); err != nil {
		return nil, err
	}
	if _, err := os.Stat(system.DatabasePath(cfg.Data)); err != nil && cfg.UsesFile() {
		return nil, fmt.Errorf("nothing runs at %s, and there is no data in %s: start with `tidemill run`, or say where with --server or --data", c.Base, cfg.Data)
	}
	off, openErr := offline(ctx, e, cfg, r.About)
	if _, locked := errors.AsType[*sqlitedb.LockedError](openErr); locked && unknown(err) {
		return nil, err // the one that refused us has them
	}
	return off, openErr
}

// named asks the server that was named. On this machine it may be known by what is here.
func (r *Remote) named(ctx context.Context, e Env) (*Client, error) {
	c, err := r.Settings.Client(e, r.Server, r.Token)
	if err != nil {
		return nil, err
	}
	_, err = api.GetStatus.Call(ctx, &c.Client, &operation.None{})
	if unreachable(err) {
		return nil, fmt.Errorf("nothing runs at %s: start it with `tidemill run`, or leave --server (TIDEMILL_SERVER) out to open --data", c.Base)
	}
	return c, c.Explain(err)
}

// offline opens the data in this process. What runs on them elsewhere has locked them. Systems need
// their secrets and servers to be opened; where they are not there, the rest can still be seen.
func offline(ctx context.Context, e Env, cfg *config.Loaded, about string) (*Client, error) {
	systems := lookedAt(e, cfg, about)
	if len(systems) == 0 {
		return nil, fmt.Errorf("nothing runs at %s, and %s on servers has no data to open: start it with `tidemill run`, or say where it runs with --server", Listener(cfg), strings.Join(e.Table.Configured(cfg), ", "))
	}
	return OpenData(ctx, e, cfg, systems)
}

// OpenData opens the data of some systems in this process, of those that can be opened, as long as
// any can.
func OpenData(ctx context.Context, e Env, cfg *config.Loaded, systems []string) (*Client, error) {
	token := cfg.Admin.Key
	if token.IsZero() {
		token = tidemill.NewSecret(rand.Text()) // nobody else asks this process
	}
	open := func(systems []string) (Opened, error) {
		return e.Open(ctx, e, cfg, systems, token)
	}
	in, err := open(systems)
	if err != nil && len(systems) > 1 {
		if rest := openRest(e, systems, open); rest != nil {
			in, err = rest, nil
		}
	}
	if err != nil {
		return nil, err
	}
	t := &operation.InProcess{Handler: in}
	return &Client{Client: operation.Client{HTTP: &http.Client{Transport: t}, Base: "http://localhost", Token: token.Reveal(), Patience: patience}, close: func() error {
		t.Begun.Wait()
		return in.Close()
	}}, nil
}

// lookedAt are the systems whose data a command opens: those that run, if they keep any. Of an
// embedded database the first system is too where nothing says which ran there, or only those did that
// keep no more than dead letters, which are in it: it asks no server.
func lookedAt(e Env, cfg *config.Loaded, about string) []string {
	var systems []string
	for _, s := range e.Table.Of(e.Table.Configured(cfg)) {
		if !s.Stateless {
			systems = append(systems, s.Name)
		}
	}
	first := e.Table[0].Name
	embedded := cfg.Redis.URL == "" && cfg.Postgres.URL == "" && cfg.ClickHouse.URL == "" && cfg.Kafka.Brokers == ""
	if embedded && (len(systems) == 0 || len(cfg.Systems) == 0 && !slices.Contains(systems, first)) {
		systems = slices.Insert(systems, 0, first)
	}
	if about != "" && !slices.Contains(systems, about) { // it needs no settings
		systems = append(systems, about)
	}
	return systems
}

// openRest opens those of the systems that can be, and says which are left out; nil: none can.
func openRest(e Env, systems []string, open func([]string) (Opened, error)) (in Opened) {
	var can []string
	left := map[string]error{}
	for _, s := range systems {
		one, err := open(append(can[:len(can):len(can)], s))
		if err != nil {
			left[s] = err
			continue
		}
		can = append(can, s)
		if err := one.Close(); err != nil {
			return nil
		}
	}
	if len(can) == 0 { // nothing named is what is configured
		return nil
	}
	in, err := open(can)
	if err != nil {
		return nil
	}
	for _, s := range systems {
		if left[s] != nil {
			_, _ = fmt.Fprintf(e.Err, "tidemill: %s is left out because it cannot be opened: %v\n", s, left[s])
		}
	}
	return in
}

// Listener is the URL of an instance with this configuration, as seen from this machine.
func Listener(cfg *config.Loaded) string {
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil || port == "0" {
		return DefaultServer
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

const DefaultServer = "http://127.0.0.1:8484"

// SameFile says whether two paths lead to one file, which exists.
func SameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Ask opens the instance, runs do, and closes what was opened.
func (r *Remote) Ask(ctx context.Context, e Env, do func(*Client) error) error {
	c, err := r.open(ctx, e)
	if err != nil {
		return err
	}
	return errors.Join(c.Explain(do(c)), c.close())
}

// printsJSON says whether answers are printed as they come.
func (r *Remote) printsJSON() bool { return r.JSON }
