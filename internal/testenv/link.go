package testenv

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Link is a connection to a server that can be slowed down and cut: a toxiproxy in the test's
// own process. Clients connect to Addr.
type Link struct {
	Addr string // host:port

	t     testing.TB
	proxy *toxiproxy.Proxy
}

var quiet sync.Once

// NewLink opens a link to an address, host:port.
func NewLink(t testing.TB, upstream string) *Link {
	t.Helper()
	l := &Link{t: t, Addr: net.JoinHostPort("127.0.0.1", FreePort(t))}
	quiet.Do(func() { zerolog.SetGlobalLevel(zerolog.Disabled) }) // toxics have a logger of their own
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l.proxy = toxiproxy.NewProxy(server, Name("link"), l.Addr, upstream)
	if err := l.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.proxy.Stop)
	return l
}

// Slow delays every answer by d, give or take jitter.
func (l *Link) Slow(d, jitter time.Duration) {
	l.add("latency", "downstream", fmt.Sprintf(`{"latency":%d,"jitter":%d}`, d.Milliseconds(), jitter.Milliseconds()))
}

// Narrow lets through this many kilobytes a second each way.
func (l *Link) Narrow(kilobytes int) {
	l.add("bandwidth", "downstream", fmt.Sprintf(`{"rate":%d}`, kilobytes))
	l.add("bandwidth", "upstream", fmt.Sprintf(`{"rate":%d}`, kilobytes))
}

// Slice sends answers in segments of about this many bytes.
func (l *Link) Slice(bytes int) {
	l.add("slicer", "downstream", fmt.Sprintf(`{"average_size":%d,"size_variation":0,"delay":10}`, bytes))
}

// BlackHole swallows everything both ways and keeps connections open.
func (l *Link) BlackHole() {
	l.add("timeout", "downstream", `{"timeout":0}`)
	l.add("timeout", "upstream", `{"timeout":0}`)
}

// LoseAnswers lets requests arrive, and closes each connection after this many more bytes of
// answers.
func (l *Link) LoseAnswers(bytes int) {
	l.add("limit_data", "downstream", fmt.Sprintf(`{"bytes":%d}`, bytes))
}

// Reset answers with a TCP reset after d.
func (l *Link) Reset(d time.Duration) {
	l.add("reset_peer", "downstream", fmt.Sprintf(`{"timeout":%d}`, d.Milliseconds()))
}

// Refuse closes open connections and accepts no more, until Heal.
func (l *Link) Refuse() { l.proxy.Stop() }

// Heal undoes all faults of the link.
func (l *Link) Heal() {
	l.t.Helper()
	l.proxy.Toxics.ResetToxics(context.Background())
	if err := l.proxy.Start(); err != nil && !strings.Contains(err.Error(), "already started") {
		l.t.Fatalf("heal the link: %v", err)
	}
}

func (l *Link) add(kind, stream, attributes string) {
	l.t.Helper()
	_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"name":"%s_%s","type":%[1]q,"stream":%[2]q,"attributes":%s}`, kind, stream, attributes)))
	if err != nil {
		l.t.Fatalf("toxic %s: %v", kind, err)
	}
}
