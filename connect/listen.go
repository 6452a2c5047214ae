package connect

import (
	"net/http"

	"github.com/tidemill/tidemill/serve"
)

// adminConnections are open at once at admin.listen.
const adminConnections = 256

// Listen opens the address of listen, for Run, and that of admin.listen where there is one.
func (i *Instance) Listen() (_ *serve.Server, err error) {
	c := i.Config
	if c.Admin.Listen != "" {
		if err := i.open(c.Admin.Listen, "admin.listen", i.mux, serve.Limits{Connections: adminConnections, PerAddress: -1}); err != nil {
			return nil, err
		}
	}
	l := i.limits()
	l.Reserved = i.reserved
	server, err := serve.Listen(c.Listen, i.Handler, l, i.Log)
	if err == nil {
		i.sockets.Add("listen", server.Sockets)
	}
	return server, err
}

// limits are those of a listener for senders.
func (i *Instance) limits() serve.Limits {
	h := &i.Config.HTTP
	trusted, _ := h.Proxies() // checked
	return serve.Limits{Connections: h.Connections, PerAddress: h.PerAddress, Trusted: trusted, Body: h.BodyTimeout}
}

// reserved says whether a request is a probe's or an operator's: it is answered though all
// connections are at work.
func (i *Instance) reserved(r *http.Request) bool {
	return i.ours(r.URL.Path) || r.URL.Path == "/health" || r.URL.Path == "/ready"
}

// open opens a listener of its own.
func (i *Instance) open(address, setting string, h http.Handler, l serve.Limits) error {
	l.Setting = setting
	server, err := serve.Listen(address, h, l, i.Log)
	if err != nil {
		return err
	}
	i.ports = append(i.ports, server)
	i.sockets.Add(setting, server.Sockets)
	i.Log.Info("listening", "address", server.Addr(), "setting", setting)
	return nil
}
