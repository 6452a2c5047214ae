package connect

import (
	"net"
	"net/http"
	"strconv"

	"github.com/tidemill/tidemill/connect/system"
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
	l := i.Limits()
	l.Reserved = i.reserved
	server, err := serve.Listen(c.Listen, i, l, i.Log)
	if err == nil {
		i.Sockets.Add("listen", server.Sockets)
	}
	return server, err
}

// open opens a listener of its own.
func (i *Instance) open(address, setting string, h http.Handler, l serve.Limits) error {
	l.Setting = setting
	server, err := serve.Listen(address, h, l, i.Log)
	if err != nil {
		return err
	}
	i.ports = append(i.ports, server)
	i.Sockets.Add(setting, server.Sockets)
	// Logged at the start, for each port of a system or of a part that has one of its own.
	i.Log.Info("a port is open", "address", server.Addr(), "setting", setting)
	return nil
}

// port opens a system's listener of its own, on the address of listen where ports have none.
func (i *Instance) port(p system.Port) error {
	address := i.Config.Ports
	if address == "" {
		address, _, _ = net.SplitHostPort(i.Config.Listen) // checked
	}
	return i.open(net.JoinHostPort(address, strconv.Itoa(p.Number)), p.Setting, p.Handler, p.Limits)
}
