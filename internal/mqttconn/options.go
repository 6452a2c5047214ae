package mqttconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
)

// Options tune a client; only ClientID may be required (see Session).
type Options struct {
	ClientID string          // empty: the broker chooses one; not with Session
	User     string          // empty: none
	Password tidemill.Secret // zero: none
	Version  byte            // 5 or 4 (MQTT 3.1.1); 0 means 5, or 4 if the broker refuses 5
	TLS      *tls.Config     // for brokers with a tls scheme; nil means the system's roots. See TLSFiles

	KeepAlive time.Duration // whole seconds between pings; 0 means 30s, at most 18h
	Session   time.Duration // how long the broker keeps our session while we are disconnected; 0: a clean session each time. MQTT 3.1.1 keeps it for ever
	Connect   time.Duration // how long dialling and the broker's answer may take; 0 means 10s
	Write     time.Duration // how long one write may take before the connection counts as broken; 0 means 5s
	MaxDelay  time.Duration // longest wait before connecting again; 0 means 2m. The first is about 100ms, then it doubles
	Patience  time.Duration // how long messages wait for a lost connection before they are refused as transient; 0 means 2s

	Window    int // most messages in flight, at QoS 1 and 2; 0 means 1000, at most 60,000. The broker's receive maximum bounds it too
	Inbox     int // most messages received and not acknowledged; 0 means 1000, at most 65,535
	MaxPacket int // largest packet that is read, in bytes; 0 means 16 MiB

	Log  *slog.Logger                                             // nil discards
	Dial func(ctx context.Context, addr string) (net.Conn, error) // nil means TCP; TLS is put on top
	Rand func() float64                                           // of the jitter; nil means math/rand
}

// Limits of packet ids: those above are for SUBSCRIBE and UNSUBSCRIBE.
const maxWindow = 60_000

const (
	defaultWindow    = 1000 // enough for 77,000 messages a second at 13 ms round trip
	defaultMaxPacket = 16 << 20
	minPacket        = 1 << 10
	firstDelay       = 100 * time.Millisecond
)

func (o *Options) fill() error {
	if o.KeepAlive == 0 {
		o.KeepAlive = 30 * time.Second
	}
	for _, d := range []struct {
		field     *time.Duration
		otherwise time.Duration
		name      string
	}{
		{&o.Connect, 10 * time.Second, "Connect"}, {&o.Write, 5 * time.Second, "Write"},
		{&o.MaxDelay, 2 * time.Minute, "MaxDelay"}, {&o.Patience, 2 * time.Second, "Patience"},
	} {
		if *d.field == 0 {
			*d.field = d.otherwise
		}
		if *d.field < 0 {
			return fmt.Errorf("mqtt: %s is %v: it must not be negative", d.name, *d.field)
		}
	}
	for _, n := range []struct {
		field                *int
		otherwise, min, most int
		name                 string
	}{
		{&o.Window, defaultWindow, 1, maxWindow, "Window"}, {&o.Inbox, defaultWindow, 1, 65_535, "Inbox"},
		{&o.MaxPacket, defaultMaxPacket, minPacket, 256<<20 - 1, "MaxPacket"},
	} {
		if *n.field == 0 {
			*n.field = n.otherwise
		}
		if *n.field < n.min || *n.field > n.most {
			return fmt.Errorf("mqtt: %s is %d: want %d to %d", n.name, *n.field, n.min, n.most)
		}
	}
	switch {
	case o.KeepAlive < time.Second || o.KeepAlive > 65_535*time.Second:
		return fmt.Errorf("mqtt: KeepAlive is %v: want 1s to 18h12m15s", o.KeepAlive)
	case o.Version != 0 && o.Version != 4 && o.Version != 5:
		return fmt.Errorf("mqtt: Version is %d: want 5, 4 (MQTT 3.1.1) or 0 (whichever the broker takes)", o.Version)
	case o.Session < 0:
		return fmt.Errorf("mqtt: Session is %v: it must not be negative", o.Session)
	case o.Session > 0 && o.ClientID == "":
		return errors.New("mqtt: a session that outlives its connection needs a ClientID of its own")
	case len(o.ClientID) > 65_535 || !utf8.ValidString(o.ClientID) || strings.ContainsRune(o.ClientID, 0):
		return errors.New("mqtt: ClientID must be UTF-8 without NUL, of at most 65,535 bytes")
	case len(o.User) > 65_535 || !utf8.ValidString(o.User) || strings.ContainsRune(o.User, 0):
		return errors.New("mqtt: User must be UTF-8 without NUL, of at most 65,535 bytes")
	case len(o.Password.Reveal()) > 65_535:
		return errors.New("mqtt: Password must have at most 65,535 bytes")
	case o.User == "" && !o.Password.IsZero() && o.Version == 4:
		return errors.New("mqtt: MQTT 3.1.1 takes no Password without a User")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, "tcp", addr)
		}
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return nil
}

// A Broker is a parsed address.
type Broker struct {
	Addr string // host:port
	TLS  bool   // by its scheme, or because its port is 8883
}

// ParseBroker reads tcp://host[:port] or mqtt://…, and for TLS ssl://, tls:// or mqtts://;
// host[:port] alone means tcp. Port 8883 means TLS whatever the scheme; without a port it
// is 1883, or 8883 with TLS.
func ParseBroker(raw string) (Broker, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		scheme, rest = "tcp", raw
	}
	u, err := url.Parse("tcp://" + rest)
	switch {
	case strings.Contains(rest, "@"): // the text before it may be a password
		return Broker{}, errors.New("address of the MQTT broker: give user and password by their own settings, not in the address")
	case err != nil || u.Hostname() == "":
		return Broker{}, fmt.Errorf("address of the MQTT broker %q: want tcp://host:port, or tls://host:port", raw)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return Broker{}, fmt.Errorf("address of the MQTT broker %q: nothing may follow host and port", raw)
	}
	b := Broker{}
	switch strings.ToLower(scheme) {
	case "tcp", "mqtt":
	case "ssl", "tls", "mqtts":
		b.TLS = true
	default:
		return Broker{}, fmt.Errorf("address of the MQTT broker %q: want scheme tcp, mqtt, tls, ssl or mqtts", raw)
	}
	port := u.Port()
	switch {
	case port == "8883":
		b.TLS = true
	case port == "" && b.TLS:
		port = "8883"
	case port == "":
		port = "1883"
	case port == "0":
		return Broker{}, fmt.Errorf("address of the MQTT broker %q: a port is a number from 1 to 65535", raw)
	}
	b.Addr = net.JoinHostPort(u.Hostname(), port)
	return b, nil
}
