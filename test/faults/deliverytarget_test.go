//go:build servers

package faults

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill/systems/delivery/partner/partnertest"
)

// canary listens on loopback, on both protocols if the machine has them, and counts
// connections.
type canary struct {
	port string
	came atomic.Int64
}

func newCanary(t testing.TB) *canary {
	t.Helper()
	c := &canary{}
	listen := func(host, port string) {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			if host == "::1" {
				return // the machine has no IPv6
			}
			t.Fatal(err)
		}
		_, c.port, _ = net.SplitHostPort(l.Addr().String())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				n, err := l.Accept()
				if err != nil {
					return
				}
				c.came.Add(1)
				n.Close()
			}
		}()
		t.Cleanup(func() { l.Close(); <-ended })
	}
	listen("127.0.0.1", "0")
	listen("::1", c.port)
	return c
}

// TestTargetsInsideAreRefused has partners at all kinds of addresses outside the internet.
// Those that show in the configuration are refused at the start; those behind a name, at the
// connection. Nothing connects.
func TestTargetsInsideAreRefused(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onSQLite, func(w *deliveryWorld) {
		c := newCanary(w)
		w.env["HTTP_PROXY"], w.env["http_proxy"] = "http://127.0.0.1:"+c.port, "http://127.0.0.1:"+c.port // is not asked
		inside := func(name, url string) *farPartner {
			return w.partner(name, well, map[string]any{"endpoint": strings.ReplaceAll(url, "PORT", c.port), "allowPrivate": []string{}, "maxRetries": 0,
				"timeout": "1s", "idempotent": true, "breaker": map[string]any{"fails": 1000}})
		}
		for _, url := range []string{
			"http://127.0.0.1:PORT/", "http://[::1]:PORT/", "http://[::ffff:127.0.0.1]:PORT/", "http://[::127.0.0.1]:PORT/", "http://[64:ff9b::7f00:1]:PORT/",
			"http://0.0.0.0:PORT/", "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.0.1/", "http://100.64.0.1/", "http://169.254.169.254/latest/meta-data/",
			"http://[fd00:ec2::254]/latest/", "http://somebody@example.com/",
		} {
			inside("literal", url)
			w.configure()
			w.partners = nil
			in := w.instance()
			in.Begin()
			if err := in.WaitReady(time.Minute); err == nil || !strings.Contains(err.Error(), "blocked_target") || !strings.Contains(err.Error(), "literal") {
				w.Errorf("a partner at %s: %v, want that the start is refused", url, err)
				in.Kill()
				continue
			}
			w.hit("refused at the start")
		}
		w.instances = nil
		for n, url := range []string{"http://localhost:PORT/", "http://LOCALHOST:PORT/", "http://localhost.:PORT/",
			"http://2130706433:PORT/", "http://0x7f000001:PORT/", "http://017700000001:PORT/", "http://127.1:PORT/"} {
			inside(fmt.Sprint("name", n), url)
		}
		redirects := w.partner("redirects", func(*rand.Rand, string) says {
			return answers("302", func(e *partnertest.Exchange) {
				e.W.Header().Set("Location", "http://127.0.0.1:"+c.port+"/")
				e.W.WriteHeader(http.StatusFound)
			})
		}, map[string]any{"maxRetries": 0, "idempotent": true, "breaker": map[string]any{"fails": 1000}})
		w.run(1)
		l := w.startDeliveryLoad(deliveryLoadOptions{Events: 3})
		l.wait()
		w.quiet(afterLease)
		letters := w.letters()
		for n, p := range w.partners {
			for _, e := range l.journal() {
				letter := letters["s2s."+p.name][e.id]
				if letter.ID == "" {
					w.Errorf("event %s has no letter of %s", e.id, p.name)
				}
				if blocked := letter.Kind == "validation" && letter.Reason == "validation" && strings.Contains(letter.Cause, "blocked_target"); n < 2 && !blocked { // the others resolve to nothing, or to loopback
					w.Errorf("the letter of %s says %+v, want validation, blocked_target", p.name, letter)
				} else if blocked {
					w.hit("refused at the connection")
				}
				if p == redirects && (letter.Kind != "partner_error" || letter.Reason != "partner_error") {
					w.Errorf("the letter of %s says %+v, want partner_error", p.name, letter)
				}
			}
		}
		if n := c.came.Load(); n > 0 {
			w.Errorf("%d connections were made to where nobody may go", n)
		}
		w.struck("refused at the start", 13, w.hits["refused at the start"])
		w.struck("refused at the connection", 6, w.hits["refused at the connection"])
		w.struck("redirects", 3, redirects.total("302"))
	})
}
