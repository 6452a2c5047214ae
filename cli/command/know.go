package command

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/apitoken"
)

// Client talks to a server that was named on the command line or in the environment. The token
// is the one given, or, where the server is on this machine, what is known of it here.
func (s *Settings) Client(e Env, server, token string) (*Client, error) {
	c := newClient(Address(server))
	if token == "" && !thisMachine(c.Base) {
		c.None = errors.New("none was given")
		return c, nil
	}
	cfg, _ := s.Read(e, nil) // whatever is wrong with it does not matter there
	return c, c.Know(token, cfg)
}

// Know finds the token: the one given, that of the configuration, or the one in the data folder.
func (c *Client) Know(given string, cfg *config.Loaded) error {
	if c.Token = given; c.Token == "" {
		c.Token = cfg.Admin.Key.Reveal()
	}
	if c.Token != "" {
		return nil
	}
	t, err := apitoken.Read(cfg.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.None = fmt.Errorf("there is none in %s", cfg.Data)
	case errors.Is(err, fs.ErrPermission):
		c.None = fmt.Errorf("that in %s is not yours to read", cfg.Data)
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
