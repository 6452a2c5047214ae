package urlsecret_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/tidemill/tidemill/internal/urlsecret"
)

func TestSecretsOfURLs(t *testing.T) {
	for _, c := range []struct {
		url    string
		secret string // empty: none
		shown  string
	}{
		{"https://a.example/v1/events", "", "https://a.example/v1/events"},
		{"https://a.example", "", "https://a.example"},
		{"https://a.example/", "", "https://a.example/"},
		{"https://a.example/dfareporting/v5/userprofiles/42/conversions/batchinsert", "", "https://a.example/dfareporting/v5/userprofiles/42/conversions/batchinsert"},
		{"https://a.example/v1/events/{pixelId}", "", "https://a.example/v1/events/{pixelId}"},
		{"https://a.example/GeoLite2-Country.mmdb", "", "https://a.example/GeoLite2-Country.mmdb"},
		{"https://a.example/v1?v=2&format=json", "", "https://a.example/v1?[secret]"},
		{"https://a.example/v1?access_token=ab12", "ab12", "https://a.example/v1?[secret]"},
		{"https://a.example/v1?x=hunter2-hunter2", "hunter2-hunter2", "https://a.example/v1?[secret]"},
		{"https://a.example/v1?x=1;sig=a%2Fb%3D", "a/b=", "https://a.example/v1?[secret]"},
		{"https://a.example/v1?x=1;sig=a%2fb%3d", "a%2fb%3d", "https://a.example/v1?[secret]"},
		{"https://a.example/v1?hunter2hunter2", "hunter2hunter2", "https://a.example/v1?[secret]"},
		{"https://a.example/webhook/hunter2", "hunter2", "https://a.example/webhook/[secret]"},
		{"https://a.example/webhook/events", "", "https://a.example/webhook/events"},
		{"https://a.example/services/T024BE7LD/B024BE7LH/oGCwoOSYc1EaXHKTaXgbfOmq", "oGCwoOSYc1EaXHKTaXgbfOmq", "https://a.example/services/T024BE7LD/B024BE7LH/[secret]"},
		{"https://a.example/bot12345:AbC-x9/sendMessage", "bot12345:AbC-x9", "https://a.example/[secret]/sendMessage"},
		{"https://a.example/t/a%2Fb-12345678/x", "a/b-12345678", "https://a.example/t/[secret]/x"},
		{"https://user:hunter2@a.example/x", "hunter2", "https://a.example/x?[secret]"},
		{"https://hunter2@a.example/x", "hunter2", "https://a.example/x?[secret]"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		found := urlsecret.In(u)
		if c.secret == "" && len(found) != 0 || c.secret != "" && !slices.Contains(found, c.secret) {
			t.Errorf("%s: found %q, want %q", c.url, found, c.secret)
		}
		if got := urlsecret.Show(c.url); got != c.shown {
			t.Errorf("%s is shown as %s, want %s", c.url, got, c.shown)
		}
	}
	for _, no := range []string{"hunter2", "https://user:hunter2#x@a.example/x", "https://user:hunter2?x@a.example/x", "https://user:hun/ter2@a.example/x", "https://hun/ter2@a.example/x",
		"https://a.example/\\hunter2", "user:hunter2://x@a.example"} {
		if got := urlsecret.Show(no); got != urlsecret.Hidden {
			t.Errorf("what is no URL is shown: %q is %q", no, got)
		}
	}
}
