package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/apitoken"
)

type tokenCmd struct{ settings }

// Help is shown by tidemill token --help.
func (c *tokenCmd) Help() string {
	return `The token comes from the configuration (admin.key, TIDEMILL_TOKEN) or from the file api.token in the data folder. The other commands find it by themselves; this one is for programs that use the API:

  curl -H "Authorization: Bearer $(tidemill token)" http://127.0.0.1:8484/api/v1/status

For a new token: stop the instance, remove the file, and start it again.`
}

func (c *tokenCmd) Run(e env) error {
	cfg, err := c.load(e, nil)
	if err != nil {
		return err
	}
	a := new(client)
	if err := a.know("", cfg); err != nil {
		return err
	}
	if a.none != nil {
		return fmt.Errorf("%w: the first `tidemill run` makes one there; or say where with --data", a.none)
	}
	_, err = fmt.Fprintln(e.out, a.Token)
	return err
}

// client talks to a server that was named on the command line or in the environment. The token
// is the one given, or, where the server is on this machine, what is known of it here.
func (s *settings) client(e env, server, token string) (*client, error) {
	c := newClient(address(server))
	if token == "" && !thisMachine(c.Base) {
		c.none = errors.New("none was given")
		return c, nil
	}
	cfg, _ := s.read(e, nil) // whatever is wrong with it does not matter there
	return c, c.know(token, cfg)
}

// know finds the token: the one given, that of the configuration, or the one in the data folder.
func (c *client) know(given string, cfg *config.Loaded) error {
	if c.Token = given; c.Token == "" {
		c.Token = cfg.Admin.Key.Reveal()
	}
	if c.Token != "" {
		return nil
	}
	t, err := apitoken.Read(cfg.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.none = fmt.Errorf("there is none in %s", cfg.Data)
	case errors.Is(err, fs.ErrPermission):
		c.none = fmt.Errorf("that in %s is not yours to read", cfg.Data)
	case err != nil:
		return err
	}
	c.Token = t.Reveal()
	return nil
}

// thisMachine says whether a URL is of this machine: by loopback, or by an address of its own.
func thisMachine(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	if config.Loopback(u.Hostname()) {
		return true
	}
	ours, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	for _, a := range ours {
		if n, ok := a.(*net.IPNet); ok && ip != nil && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}
