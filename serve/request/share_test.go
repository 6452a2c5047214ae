package request_test

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/request"
)

const mib = 1 << 20

// sender is a request from an address.
func sender(bodies *request.Bodies, from string, known bool) *request.Body {
	r := httptest.NewRequest("POST", "/", nil)
	r.RemoteAddr = from
	b := new(request.Body)
	b.Open(bodies, r)
	if known {
		b.Vouch()
	}
	return b
}

func TestWhoMayHaveHowMuchMemory(t *testing.T) {
	type want struct {
		from  string
		known bool
		n     int64 // MiB of 16
		ok    bool
	}
	for name, all := range map[string][]want{
		"without a key there is half, whoever asks": {
			{"10.0.0.1:1", false, 4, true}, {"10.0.0.2:1", false, 4, true}, {"10.0.0.3:1", false, 1, false}, {"10.0.0.3:1", true, 8, true}},
		"an address without a key has a quarter": {
			{"10.0.0.1:1", false, 3, true}, {"10.0.0.1:2", false, 2, false}, {"10.0.0.1:3", false, 1, true}, {"10.0.0.2:1", false, 4, true}},
		"with a key an address has half": {
			{"10.0.0.1:1", true, 7, true}, {"10.0.0.1:2", true, 2, false}, {"10.0.0.1:3", true, 1, true}, {"10.0.0.2:1", true, 8, true}, {"10.0.0.3:1", true, 1, false}},
		"who has a key is not charged for strangers of the address": {
			{"10.0.0.1:1", false, 4, true}, {"10.0.0.1:2", false, 1, false}, {"10.0.0.1:3", true, 8, true}},
		"a request that is alone may be larger": {
			{"10.0.0.1:1", false, 8, true}, {"10.0.0.1:2", false, 1, false}, {"10.0.0.1:3", true, 8, true}},
		"a network of 64 bits is one address": {
			{"[2001:db8::1]:1", false, 3, true}, {"[2001:db8::2]:1", false, 2, false}, {"[2001:db8:0:1::1]:1", false, 4, true}},
		"whoever has a key, all is all": {
			{"10.0.0.1:1", true, 8, true}, {"10.0.0.2:1", true, 8, true}, {"10.0.0.3:1", true, 1, false}},
	} {
		t.Run(name, func(t *testing.T) {
			bodies := request.NewBodies(request.Limits{Memory: 16 * mib, Ratio: 10, Time: time.Minute})
			var out []*request.Body
			for i, w := range all {
				b := sender(bodies, w.from, w.known)
				if got := b.Reserve(w.n * mib); got != w.ok {
					t.Errorf("request %d, %+v: got %v", i, w, got)
				}
				out = append(out, b)
			}
			for _, b := range out {
				b.Close()
			}
			if n := bodies.Out(); n != 0 {
				t.Errorf("%d bytes are out", n)
			}
			if !sender(bodies, "10.0.0.1:1", true).Reserve(16 * mib) {
				t.Error("not all of it came back")
			}
		})
	}
}

// A key may be in the body: what its request has counts as that of a known one from then on.
func TestAKeyThatComesLaterFreesTheShareOfStrangers(t *testing.T) {
	bodies := request.NewBodies(request.Limits{Memory: 16 * mib, Ratio: 10, Time: time.Minute})
	late := sender(bodies, "10.0.0.1:1", false)
	if !late.Reserve(8 * mib) {
		t.Fatal("there is no room")
	}
	if sender(bodies, "10.0.0.2:1", false).Reserve(1 * mib) {
		t.Error("strangers have more than half")
	}
	late.Vouch()
	stranger := sender(bodies, "10.0.0.2:1", false)
	if !stranger.Reserve(1 * mib) {
		t.Error("the half of strangers is still taken by one with a key")
	}
	stranger.Close()
	late.Close()
	if n := bodies.Out(); n != 0 {
		t.Errorf("%d bytes are out", n)
	}
}

func TestBehindAProxyItIsTheSendersAddressThatCounts(t *testing.T) {
	bodies := request.NewBodies(request.Limits{Memory: 16 * mib, Ratio: 10, Time: time.Minute, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, from := range []string{"198.51.100.1", "198.51.100.2"} {
		r := httptest.NewRequest("POST", "/", nil)
		r.RemoteAddr = "10.0.0.1:1"
		r.Header.Set("X-Forwarded-For", from)
		var b request.Body
		b.Open(bodies, r)
		if !b.Reserve(4 * mib) {
			t.Errorf("%s has no share of its own", from)
		}
	}
}

func TestABodyWithoutRoomIsBackPressure(t *testing.T) {
	bodies := request.NewBodies(request.Limits{Memory: 8 * mib, Ratio: 10, Time: time.Minute})
	others := sender(bodies, "10.0.0.9:1", true)
	if !others.Reserve(8 * mib) {
		t.Fatal("there is no room")
	}
	var b request.Body
	b.Open(bodies, httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", mib))))
	if p := b.Read(httptest.NewRecorder(), 2*mib); p == nil || p.Status != 503 {
		t.Errorf("a body for which there is no room: %v", p)
	}
	others.Close()
	b.Close()
	if n := bodies.Out(); n != 0 {
		t.Errorf("%d bytes are out", n)
	}
}
