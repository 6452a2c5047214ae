package bridgecli

import "testing"

func TestTheBrokerOfAServerAsItIsreached(t *testing.T) {
	for _, c := range []struct{ server, listens, want string }{
		{"http://127.0.0.1:8484", "127.0.0.1:1883", "127.0.0.1:1883"},
		{"http://events.example:8484", "0.0.0.0:1883", "events.example:1883"},
		{"http://[2001:db8::1]:8484", "[::]:1883", "[2001:db8::1]:1883"},
		{"http://events.example:8484", "10.0.0.7:1883", "10.0.0.7:1883"},
		{"http://events.example:8484", "127.0.0.1:1883", ""},
	} {
		got, err := reached(c.server, c.listens)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s of %s: %q, %v; want %q", c.listens, c.server, got, err, c.want)
		}
	}
}
