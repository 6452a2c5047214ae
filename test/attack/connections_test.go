//go:build servers

package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/mqttconn"
)

// native is a batch of n events as native SDKs send them, with the key in the header.
func native(name string, n int) map[string]any {
	batch := make([]any, n)
	for i := range batch {
		batch[i] = map[string]any{"event": name, "event_id": uuid.NewString(), "distinct_id": fmt.Sprintf("%s-%d", name, i), "timestamp": time.Now().UTC().Format(time.RFC3339), "properties": map[string]any{"text": strings.Repeat("x", 300)}}
	}
	return map[string]any{"events": batch}
}

// many is how many sockets an attack opens: as many as wanted, or as the machine lets this
// process open.
func many(t *testing.T, wanted int) int {
	t.Helper()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	n := min(wanted, int(files.Cur)*3/4)
	if n < wanted {
		t.Logf("%d sockets instead of %d: the machine allows %d open files", n, wanted, files.Cur)
	}
	return n
}

// knock opens a connection and says something.
func knock(t *testing.T, addr, say string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, _ = io.WriteString(c, say) // it may be closed already
	return c
}

// TestSilentConnections: sockets that send nothing, or half a header, or wait between two
// requests, keep neither probes nor senders out.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]string{
		"silent":              "",
		"half a header":       "POST /v1/batch HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"between requests":    "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"a body never wanted": "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// As many as for all addresses: a single address has fewer.
			a := start(t, []string{"analytics"}, map[string]string{"TIDEMILL_HTTP_CONNECTIONS": "300", "TIDEMILL_HTTP_CONNECTIONS_PER_ADDRESS": "-1"})
			a.http.Transport.(*http.Transport).DisableKeepAlives = true
			sent := 0
			for i := range many(t, 1000) {
				knock(t, a.Addr, say)
				if i%200 != 0 {
					continue
				}
				if status, said := a.get("/livez"); status != http.StatusOK {
					t.Fatalf("/livez behind %d sockets answers %d: %s", i+1, status, said)
				}
				if status, said := a.post(honest, "/v1/batch", native("honest", 3)); status != http.StatusAccepted {
					t.Fatalf("honest events behind %d sockets are answered %d: %s", i+1, status, said)
				}
				sent += 3
			}
			a.until("honest events arrive", func() bool { return a.stored(honest, "honest") == sent })
			if n := a.metric("tidemill_connections_closed_total", ""); n < 100 {
				t.Errorf("%v connections were closed to make room: did the attack reach it?", n)
			}
		})
	}
}

// TestOneAddressTakesItsShare: with default settings, 5,000 silent sockets of one address.
func TestOneAddressTakesItsShare(t *testing.T) {
	t.Parallel()
	a := start(t, []string{"analytics"}, nil)
	n := many(t, 5000)
	for range n {
		knock(t, a.Addr, "")
	}
	a.serves("behind", 3)
	if status, said := a.get("/livez"); status != http.StatusOK {
		t.Errorf("/livez answers %d: %s", status, said)
	}
	if open := a.metric("tidemill_connections", `"listen"`); open > 2048 {
		t.Errorf("%v of %d connections of one address are open; want half of 4096", open, n)
	}
}

// TestDrippingBodies: large bodies without a key that never end, resent whenever the server
// ends them, take no memory from requests with a key.
func TestDrippingBodies(t *testing.T) {
	t.Parallel()
	const large = 6 << 20
	piece := []byte(strings.Repeat(" ", 64<<10))
	for _, attackers := range []int{15, 200} {
		t.Run(strconv.Itoa(attackers), func(t *testing.T) {
			a := start(t, []string{"analytics"}, nil)
			ctx, stop := context.WithCancel(t.Context())
			var dripping sync.WaitGroup
			var there sync.WaitGroup // every attacker has its memory, or was refused
			var held atomic.Int64
			for range attackers {
				there.Add(1)
				dripping.Go(func() {
					arrived := sync.OnceFunc(there.Done)
					defer arrived()
					for ctx.Err() == nil {
						c, err := net.DialTimeout("tcp", a.Addr, patience)
						if err != nil {
							return
						}
						cut := context.AfterFunc(ctx, func() { _ = c.Close() })
						_, err = io.WriteString(c, "POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Length: 19000000\r\n\r\n")
						for n := 0; err == nil && n < large; n += len(piece) {
							_, err = c.Write(piece)
						}
						if err == nil {
							held.Add(1)
						}
						arrived()
						if err == nil {
							_, _ = io.Copy(io.Discard, c) // until it is cut off
						}
						cut()
						_ = c.Close()
					}
				})
			}
			there.Wait()
			for i := range 100 {
				if status, said := a.post(honest, "/v1/batch", native("dripping", 50)); status != http.StatusAccepted {
					t.Errorf("honest batch %d is answered %d: %s", i, status, said)
				}
				if i%25 == 0 {
					if status, said := a.get("/livez"); status != http.StatusOK {
						t.Errorf("/livez answers %d: %s", status, said)
					}
				}
			}
			stop()
			dripping.Wait()
			if held.Load() == 0 {
				t.Error("no body was held: did the attack reach it?")
			}
			a.until("honest events arrive", func() bool { return a.stored(honest, "dripping") == 100*50 })
		})
	}
}

// memory reads a value of /proc about the memory of the process, in bytes: VmRSS: is its
// current memory, VmHWM: its highest.
func (a *target) memory(field string) int {
	a.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.PID()))
	if err != nil {
		a.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), field)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		a.t.Fatal(err)
	}
	return n << 10
}

// TestTheBrokerBeforeLogin: a client before login at the embedded MQTT broker gets no memory,
// is disconnected, and keeps no device out.
func TestTheBrokerBeforeLogin(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broker := l.Addr().String()
	_ = l.Close()
	a := start(t, []string{"bridge"}, map[string]string{"TIDEMILL_BRIDGE_BROKER_LISTEN": broker, "TIDEMILL_BRIDGE_BROKER_USER": "device", "TIDEMILL_BRIDGE_BROKER_PASSWORD": "device-password",
		"TIDEMILL_BRIDGE_BROKER_CONNECT_TIMEOUT": "2s", "TIDEMILL_BRIDGE_BROKER_CONNECTIONS_PER_ADDRESS": "-1", "TIDEMILL_BRIDGE_BROKER_RETAINED": "100"})
	device := func(retain bool, n int) (taken int) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c, err := mqttconn.Open(ctx, []string{"tcp://" + broker}, mqttconn.Options{User: "device", Password: tidemill.NewSecret("device-password")})
		if err != nil {
			t.Errorf("a device is kept out: %v", err)
			return 0
		}
		defer func() { _ = c.Close(ctx) }()
		for i := range n {
			if c.Publish(ctx, []mqttconn.Message{{Topic: fmt.Sprint("kept/", i), QoS: 1, Retain: retain, Payload: []byte("x")}}) == nil {
				taken++
			}
		}
		return taken
	}
	device(false, 1)
	before := a.memory("VmRSS:")
	piece := strings.Repeat("x", 1<<20)
	for _, attackers := range []int{60, 1000} {
		var all sync.WaitGroup
		for range attackers {
			c := knock(t, broker, "\x10\xf0\xff\xff\x07") // a CONNECT of almost 16 MiB
			all.Go(func() {
				for range 15 {
					if _, err := io.WriteString(c, piece); err != nil {
						return
					}
				}
			})
		}
		all.Wait()
		if grown := a.memory("VmRSS:") - before; grown > 128<<20 {
			t.Errorf("%d connections that have not logged in take %d MiB", attackers, grown>>20)
		}
		if device(false, 1) != 1 {
			t.Errorf("a device cannot publish behind %d attackers", attackers)
		}
	}
	var silent []net.Conn
	for range 1200 { // more than may be open
		silent = append(silent, knock(t, broker, ""))
	}
	device(false, 1)
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a silent connection stays")
		}
	}
	if n := device(true, 150); n != 100 {
		t.Errorf("%d retained messages were taken, want 100", n)
	}
	if n := a.metric("tidemill_broker_retained_messages", ""); n != 100 {
		t.Errorf("the metrics know of %v retained messages, want 100", n)
	}
}
