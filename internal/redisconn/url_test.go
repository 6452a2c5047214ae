package redisconn

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct{ name, url, want string }{
		{"a host alone has the usual port", "redis://localhost", "[localhost:6379] db 0"},
		{"database", "redis://localhost:1234/7", "[localhost:1234] db 7"},
		{"a trailing slash says nothing", "redis://localhost/", "[localhost:6379] db 0"},
		{"user and password", "redis://me:secret@h", "[h:6379] db 0 user me password secret"},
		{"password of the default user", "redis://:secret@h", "[h:6379] db 0 password secret"},
		{"escapes in a password", "redis://:a%40b%2Fc%3A@h", "[h:6379] db 0 password a@b/c:"},
		{"no escapes needed", "redis://:a/b?c@d@h", "[h:6379] db 0 password a/b?c@d"},
		{"TLS", "rediss://h", "[h:6379] db 0 TLS"},
		{"TLS that checks nothing", "rediss://h?skip_verify=true", "[h:6379] db 0 TLS unchecked"},
		{"IPv6", "redis://[::1]:6380", "[[::1]:6380] db 0"},
		{"IPv6 without a port", "redis://[::1]", "[[::1]:6379] db 0"},
		{"cluster", "redis://a:1,b:2?cluster=true", "[a:1 b:2] db 0 cluster"},
		{"cluster of one known node", "redis://a:1?cluster", "[a:1] db 0 cluster"},
		{"sentinel", "redis+sentinel://:p@a,b:2/mymaster/3?sentinel_password=q", "[a:26379 b:2] db 3 password p master mymaster q"},
		{"sentinel through TLS", "rediss+sentinel://a/m", "[a:26379] db 0 TLS master m"},
		{"Valkey", "valkey://h", "[h:6379] db 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%v db %d", u.hosts, u.db)
			for _, p := range []struct {
				on   bool
				text string
			}{
				{u.user != "", " user " + u.user}, {u.password != "", " password " + u.password}, {u.secure, " TLS"}, {u.skipVerify, " unchecked"},
				{u.cluster, " cluster"}, {u.master != "", " master " + u.master}, {u.sentinelPassword != "", " " + u.sentinelPassword},
			} {
				if p.on {
					got += p.text
				}
			}
			if got != c.want {
				t.Errorf("%q is %q, want %q", c.url, got, c.want)
			}
			for _, secret := range []string{u.password, u.sentinelPassword} {
				if len(secret) > 1 && strings.Contains(u.String(), secret) {
					t.Errorf("it prints its password: %s", u)
				}
			}
		})
	}
}

func TestURLsThatAreRefused(t *testing.T) {
	const secret = "hunter2"
	for _, c := range []struct{ name, url, says string }{
		{"no scheme", secret, "redis://"},
		{"another scheme", "http://" + secret + "@h", "redis://"},
		{"no host", "redis://:" + secret + "@", "host"},
		{"a password without a host", "redis://me:" + secret, "host"},
		{"a port that is none", "redis://:" + secret + "@h:99999", "port"},
		{"a user without a password", "redis://" + secret + "@h", "user:password"},
		{"a bad escape", "redis://:%zz" + secret + "@h", "%25"},
		{"a database that is none", "redis://h/" + secret, "database"},
		{"an option that is none", "redis://h?" + secret + "=1", "option"},
		{"a switch that is none", "redis://h?cluster=" + secret, "cluster"},
		{"several hosts for nothing", "redis://:" + secret + "@a,b", "cluster=true"},
		{"a cluster with a database", "redis://:" + secret + "@a/1?cluster=true", "database 0"},
		{"sentinel without a master", "redis+sentinel://:" + secret + "@a", "mymaster"},
		{"sentinel and cluster", "redis+sentinel://:" + secret + "@a/m?cluster=true", "sentinels"},
		{"TLS options without TLS", "redis://:" + secret + "@h?skip_verify=1", "rediss"},
		{"half a certificate", "rediss://:" + secret + "@h?cert=a", "together"},
		{"a file that is not there", "rediss://:" + secret + "@h?ca=nowhere.pem", "nowhere.pem"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			client, err := Open(ctx, tidemill.NewSecret(c.url), Options{})
			if err == nil {
				client.Close()
				t.Fatalf("%q was taken", c.url)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q is refused by %q, which does not speak of %q", c.url, err, c.says)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}
