package analyticsingest

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"nobody forwards", "203.0.113.7:1234", nil, "203.0.113.7"},
		{"not believed from a stranger", "203.0.113.7:1234", []string{"198.51.100.1"}, "203.0.113.7"},
		{"believed from a proxy", "10.1.2.3:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"the last one that is no proxy", "10.1.2.3:80", []string{"6.6.6.6, 198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"several headers", "10.1.2.3:80", []string{"6.6.6.6", "198.51.100.1", "10.9.9.9"}, "198.51.100.1"},
		{"only proxies", "10.1.2.3:80", []string{"10.0.0.1, 10.0.0.2"}, "10.0.0.1"},
		{"garbage ends the way", "10.1.2.3:80", []string{"198.51.100.1, unknown, 10.9.9.9"}, "10.9.9.9"},
		{"proxy without a header", "10.1.2.3:80", nil, "10.1.2.3"},
		{"with a port", "10.1.2.3:80", []string{"198.51.100.1:5555"}, "198.51.100.1"},
		{"IPv6", "[fd00::1]:80", []string{"2001:db8::1"}, "2001:db8::1"},
		{"IPv6 in brackets with a port", "[fd00::1]:80", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"IPv4 as IPv6", "[::ffff:10.1.2.3]:80", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"with a zone", "[fe80::1%eth0]:80", nil, "fe80::1"},
		{"a socket", "@", nil, ""},
	} {
		d := newTestIngest(t, func(o *Options) { o.TrustProxy = trusted })
		r := httptest.NewRequest("POST", "/", nil)
		r.RemoteAddr = c.peer
		for _, f := range c.forwarded {
			r.Header.Add("X-Forwarded-For", f)
		}
		if got := address(r, d.o.TrustProxy); got != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}

func TestWhoseAddressAndAgent(t *testing.T) {
	const chrome = "Mozilla/5.0 (Windows NT 10.0) Chrome/120.0"
	for _, c := range []struct {
		name, to, body, agent string
		h                     header
		ip, kept              string
	}{
		{"a browser", "/v1/batch", nativeBody(nat), chrome, apiKey, "192.0.2.1", chrome},
		{"an app", "/v1/batch", nativeBody(nat), "MyApp/3 CFNetwork/1 Darwin/23", apiKey, "192.0.2.1", "MyApp/3 CFNetwork/1 Darwin/23"},
		{"a server", "/v1/batch", nativeBody(nat), "node", apiKey, "", ""},
		{"Segment's library for browsers", "/v1/t", `{"event":"e","userId":"u"}`, chrome, basic, "192.0.2.1", chrome},
		{"Segment's library for servers", "/v1/batch", segmentBatchOf(seg), "analytics-node-next/latest", basic, "", ""},
		{"curl", "/v1/track", `{"event":"e","userId":"u"}`, "curl/8.0", basic, "", ""},
		{"PostHog's say it in their events", "/batch/", posted(ph), "posthog-node/5.70.0", nil, "192.0.2.1", "posthog-node/5.70.0"},
		{"PostHog v1 says it in a header", "/i/v1/analytics/events", posted(ph), "node", with(v1, "PostHog-Sdk-Info", "posthog-node/9.9"), "192.0.2.1", "posthog-node/9.9"},
		{"PostHog v1 in a browser", "/i/v1/analytics/events", posted(ph), chrome, v1, "192.0.2.1", chrome},
		{"CloudEvents come from servers", "/v1/cloudevents", ce, chrome, cloud, "", ""},
	} {
		d := newTestIngest(t)
		d.send(c.to, c.body, with(c.h, "User-Agent", c.agent))
		if m := d.meta(0); m.IP != c.ip || m.Agent != c.kept {
			t.Errorf("%s: address %q, agent %q; want %q, %q", c.name, m.IP, m.Agent, c.ip, c.kept)
		}
	}
}

func TestFromServer(t *testing.T) {
	for agent, want := range map[string]bool{"analytics-python/2.2": true, "python-requests/2.31": true, "Python/3.11 aiohttp/3.9": true, "Go-http-client/1.1": true,
		"node": true, "axios/1.6": true, "got (https://github.com)": true, "": false, "Mozilla/5.0 (X11) node/1": false, "gotham/1": false, "okhttp/4.9": false,
		"Dalvik/2.1.0 (Linux; U; Android 14)": false, "analytics-android/4": false, "Nodebook/1": false} {
		if got := fromServer(agent); got != want {
			t.Errorf("fromServer(%q) = %t", agent, got)
		}
	}
}
