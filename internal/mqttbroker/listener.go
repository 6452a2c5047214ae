package mqttbroker

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill/internal/seldom"
	"github.com/tidemill/tidemill/internal/sockets"
)

// maxConnect is the largest CONNECT packet in bytes, with its will: a client that has not
// logged in gets no more memory. The library would accept a packet of any size, and wait for it
// for ever.
const maxConnect = 32 << 10

// listener accepts connections, and passes those whose CONNECT has come in time to the library. It
// is one of the library's listeners.
type listener struct {
	*sockets.Listener
	server *mqtt.Server
	within time.Duration // for CONNECT
	log    *slog.Logger
	few    *seldom.Counter // of what is logged
	late   atomic.Int64    // sent no CONNECT in time
	wrong  atomic.Int64    // sent something else

	all   sync.WaitGroup
	mu    sync.Mutex // guards what follows
	open  map[*sockets.Conn]struct{}
	ended bool
}

var _ listeners.Listener = (*listener)(nil)

func newEndpoint(server *mqtt.Server, l net.Listener, o Options) *listener {
	return &listener{server: server, within: o.Connect, open: map[*sockets.Conn]struct{}{},
		log: o.Log, few: seldom.New(time.Now),
		Listener: sockets.Bound(l, sockets.Options{Total: o.Clients, PerAddress: o.PerAddress, Reserve: politely, Log: o.Log})}
}

// politely is how many connections beyond Options.Clients are accepted, to be told that the
// broker is busy.
const politely = 16

// Init is called by the library.
func (d *listener) Init(*slog.Logger) error { return nil }

// ID is the listener's name in the library.
func (d *listener) ID() string { return "tcp" }

// Address is where it listens.
func (d *listener) Address() string { return d.Addr().String() }

// Protocol is for the library's log.
func (d *listener) Protocol() string { return d.Addr().Network() }

// acceptPause is how long it waits if the machine has no room for a connection.
const acceptPause = 50 * time.Millisecond

// Serve accepts connections until Close.
func (d *listener) Serve(establish listeners.EstablishFn) {
	for {
		c, err := d.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		if c := c.(*sockets.Conn); d.enter(c) {
			go d.serve(c, establish)
		} else {
			_ = c.Close()
		}
	}
}

// enter notes a connection, unless the broker ends.
func (d *listener) enter(c *sockets.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.all.Add(1)
		d.open[c] = struct{}{}
	}
	return !d.ended
}

// serve reads the CONNECT packet and passes the connection to the library until it ends.
func (d *listener) serve(c *sockets.Conn, establish listeners.EstablishFn) {
	defer d.all.Done()
	defer func() {
		_ = c.Close()
		d.mu.Lock()
		delete(d.open, c)
		d.mu.Unlock()
	}()
	_ = c.SetReadDeadline(time.Now().Add(d.within))
	first, err := readConnect(c)
	if err != nil {
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			d.late.Add(1)
		case errors.Is(err, errNoConnect):
			d.wrong.Add(1)
		default: // gone
			return
		}
		if n, due := d.few.Note(); due {
			// Logged when clients of the embedded broker sent no CONNECT of a usual size in time: the first at
			// once, then at most once a minute with the number since.
			// To do: see what `sender` is; a check of the port by a load balancer does this too.
			d.log.Warn("mqtt broker: connections were closed: they sent no CONNECT of a usual size in time", "count", n, "error", err, "sender", c.RemoteAddr().String())
		}
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	_ = establish(d.ID(), &begun{c, first}) // the library logs what it has to
}

// errNoConnect says that a connection begins with something else.
var errNoConnect = errors.New("no CONNECT")

// readConnect reads a connection's first packet, and what follows it.
func readConnect(r io.Reader) ([]byte, error) {
	buf, need := make([]byte, 0, 512), 2
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if len(buf) >= 2 {
			size, ok := sizeOf(buf)
			if buf[0] != 1<<4 || ok && size > maxConnect || !ok && len(buf) > 4 {
				return nil, fmt.Errorf("%w of at most %d bytes", errNoConnect, maxConnect)
			}
			if need = len(buf) + 1; ok {
				need = size
			}
			if ok && len(buf) >= size {
				return buf, nil
			}
		}
		if err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) { // memory grows with the bytes
			larger := make([]byte, len(buf), min(2*cap(buf), max(need, cap(buf)+1)))
			copy(larger, buf)
			buf = larger
		}
	}
}

// sizeOf is the size of a packet with its header, once enough of it has come.
func sizeOf(b []byte) (n int, ok bool) {
	for i := 1; i < min(len(b), 5); i++ {
		n |= int(b[i]&0x7f) << (7 * (i - 1))
		if b[i]&0x80 == 0 {
			return n + i + 1, true
		}
	}
	return 0, false
}

// begun is a connection whose first bytes were read.
type begun struct {
	*sockets.Conn
	first []byte
}

// Read reads those bytes first.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.first)
	if b.first = b.first[n:]; len(b.first) == 0 {
		b.first = nil
	}
	return n, nil
}

// Close accepts no more connections, disconnects clients that are logged in and ends all
// others. The library's own disconnect read-locks twice, which deadlocks with a client that
// goes at the same moment.
func (d *listener) Close(listeners.CloseFn) {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	_ = d.Listener.Close()
	for _, cl := range d.server.Clients.GetAll() {
		if !cl.Closed() {
			_ = d.server.DisconnectClient(cl, packets.ErrServerShuttingDown)
		}
	}
	d.mu.Lock()
	for c := range d.open {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.all.Wait()
}
