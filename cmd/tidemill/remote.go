package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/windows"
)

// remote are the flags of every command that asks an instance.
type remote struct {
	settings
	Server string `help:"The running instance. Default: where the configuration listens, http://127.0.0.1:8484. When none runs there, or one on other data than --data, the command opens the data itself." env:"TIDEMILL_SERVER" placeholder:"URL"`
	Token  string `help:"The API's key, where it has one; better in the environment, where others do not see it." env:"TIDEMILL_TOKEN" placeholder:"KEY"`
	JSON   bool   `help:"Print JSON: one object, or one a line for listings."`

	about string // a system that the command is about: its data are opened though nothing configures it
}

// open finds the instance. Somebody who named a server wants that one and no other.
func (r *remote) open(ctx context.Context, e env) (*client, error) {
	c := &client{base: address(r.Server), token: r.Token, live: true, close: func() error { return nil }}
	var cfg *config.Loaded
	if r.Server == "" {
		var err error
		if cfg, err = r.load(e, nil); err != nil {
			return nil, err
		}
		c.base = listener(cfg)
		if c.token == "" {
			c.token = cfg.Admin.Key.Reveal()
		}
	}
	var its struct{ Data string }
	err := c.get(ctx, "status", nil, &its)
	switch {
	case cfg == nil && err != nil && unreachable(err):
		return nil, fmt.Errorf("nothing runs at %s: start it with `tidemill run`, or leave --server (TIDEMILL_SERVER) out to open --data", c.base)
	case cfg == nil || err != nil && !unreachable(err) && !errors.Is(err, errStranger):
		return c, err
	case err == nil && (r.Data == "" || sameFile(its.Data, cfg.Data)):
		return c, nil
	}
	if _, err := os.Stat(connect.DatabasePath(cfg.Data)); err != nil && cfg.UsesFile() {
		return nil, fmt.Errorf("nothing runs at %s, and there is no data in %s: start with `tidemill run`, or say where by --server or --data", c.base, cfg.Data)
	}
	return offline(ctx, e, cfg, r.about)
}

// offline opens the data in this process. What runs on them elsewhere has locked them. The
// bridge has none but in the database: its servers are not asked. Delivery, CRM and windows
// need their secrets and servers to be opened; where they are not there, the rest can still
// be seen.
func offline(ctx context.Context, e env, cfg *config.Loaded, about string) (*client, error) {
	open := func(systems []string) (*connect.Instance, error) {
		return connect.Open(ctx, cfg, connect.Options{Version: buildVersion(), Systems: systems, Log: logger(cfg.Log, e, true)})
	}
	systems := []string{analyticsName}
	if cfg.Delivery.Configured() {
		systems = append(systems, delivery.Name)
	}
	if cfg.CRM.Configured() {
		systems = append(systems, crm.Name)
	}
	if cfg.Windows.Configured() || about == windows.Name { // it needs no settings
		systems = append(systems, windows.Name)
	}
	in, err := open(systems)
	if err != nil && len(systems) > 1 {
		if rest := openRest(e, systems[1:], open); rest != nil {
			in, err = rest, nil
		}
	}
	if err != nil {
		return nil, err
	}
	t := &inProcess{handler: in.Handler}
	return &client{http: http.Client{Transport: t}, base: "http://localhost", token: cfg.Admin.Key.Reveal(), close: func() error {
		t.begun.Wait()
		return in.Close()
	}}, nil
}

// openRest opens those of the systems that can be, and says which are left out; nil: not
// even the data can be opened.
func openRest(e env, systems []string, open func([]string) (*connect.Instance, error)) (in *connect.Instance) {
	can := []string{analyticsName}
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
	in, err := open(can)
	if err != nil {
		return nil
	}
	for _, s := range systems {
		if left[s] != nil {
			_, _ = fmt.Fprintf(e.err, "tidemill: %s is left out, it cannot be opened: %v\n", s, left[s])
		}
	}
	return in
}

// analyticsName is the system whose data can be opened without running it.
const analyticsName = "analytics"

// listener is the URL of an instance with this configuration, as seen from this machine.
func listener(cfg *config.Loaded) string {
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil || port == "0" {
		return defaultServer
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

const defaultServer = "http://127.0.0.1:8484"

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// aboutWindows are the flags of commands about windows.
type aboutWindows struct{ remote }

func (r *aboutWindows) ask(ctx context.Context, e env, do func(*client) error) error {
	r.about = windows.Name
	return r.remote.ask(ctx, e, do)
}

// ask opens the instance, runs do, and closes what was opened.
func (r *remote) ask(ctx context.Context, e env, do func(*client) error) error {
	c, err := r.open(ctx, e)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.close())
}
