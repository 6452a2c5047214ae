package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
)

type tlsConfig = tls.Config

// address is a parsed URL. It prints without its secrets.
type address struct {
	scheme                         string
	user, password                 string
	hosts                          []string // host:port
	db                             int
	cluster                        bool
	master                         string // that the sentinels watch; empty: the hosts are not sentinels
	sentinelUser, sentinelPassword string
	secure, skipVerify             bool
	ca, cert, key                  string // files
}

// redacted removes the secrets from an error's text: some servers repeat an unknown command
// with its arguments.
func (u *address) redacted(err error) error {
	text := err.Error()
	for _, secret := range []string{u.password, u.sentinelPassword} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, tidemill.Secret{}.String())
		}
	}
	if text == err.Error() {
		return err
	}
	return tidemill.Fail(Kind(err), "%s", text)
}

func (u *address) String() string {
	s := u.scheme + "://" + strings.Join(u.hosts, ",")
	if u.master != "" {
		s += "/" + u.master
	}
	if u.db != 0 {
		s += "/" + strconv.Itoa(u.db)
	}
	return s
}

// parse reads a URL. net/url accepts one host only, and its errors show the whole text,
// password included. Here no error repeats the input: any part of a malformed URL may be part
// of a password.
func parse(raw string) (*address, error) {
	u := &address{}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, invalid("start it with redis://, rediss:// (TLS) or redis+sentinel://")
	}
	u.scheme = scheme
	name, sentinel := strings.CutSuffix(scheme, "+sentinel")
	switch name {
	case "redis", "valkey":
	case "rediss", "valkeys":
		u.secure = true
	default:
		return nil, invalid("start it with redis://, rediss:// (TLS) or redis+sentinel://")
	}
	// User and password end at the last @: a password with ? or / in it need not be escaped.
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		if err := u.userinfo(rest[:i]); err != nil {
			return nil, err
		}
		rest = rest[i+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	port := "6379"
	if sentinel {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		h, err := hostPort(strings.TrimSpace(host), port)
		if err != nil {
			return nil, err
		}
		u.hosts = append(u.hosts, h)
	}
	if err := u.query(query); err != nil {
		return nil, err
	}
	return u, u.path(strings.Trim(path, "/"), sentinel)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("URL of Redis: %w", fmt.Errorf(format, args...))
}

func (u *address) userinfo(s string) error {
	user, password, ok := strings.Cut(s, ":")
	var err1, err2 error
	u.user, err1 = url.PathUnescape(user)
	u.password, err2 = url.PathUnescape(password)
	switch {
	case err1 != nil || err2 != nil: // their text is part of the password
		return invalid("a %% in user or password has to be written %%25")
	case !ok || u.password == "":
		return invalid("before the @ write user:password, or :password for the default user")
	}
	return nil
}

func hostPort(host, port string) (string, error) {
	if host == "" {
		return "", invalid("name a host, as in redis://localhost:6379")
	}
	if bare := strings.Trim(host, "[]"); net.ParseIP(bare) != nil {
		return net.JoinHostPort(bare, port), nil
	}
	if !strings.Contains(host, ":") {
		return net.JoinHostPort(host, port), nil
	}
	h, p, err := net.SplitHostPort(host)
	if n, nerr := strconv.ParseUint(p, 10, 16); err != nil || nerr != nil || n == 0 || h == "" {
		return "", invalid("a host is name or name:port, the port a number from 1 to 65535")
	}
	return host, nil
}

// path reads [master/][db].
func (u *address) path(path string, sentinel bool) error {
	if sentinel {
		if u.cluster {
			return invalid("a cluster has no sentinels: use redis:// with ?cluster=true")
		}
		u.master, path, _ = strings.Cut(path, "/")
		if u.master == "" {
			return invalid("name the master that the sentinels watch: redis+sentinel://host1,host2/mymaster")
		}
	}
	if path != "" {
		n, err := strconv.ParseUint(path, 10, 16)
		if err != nil {
			return invalid("after the / comes the number of a database, as in redis://host/3")
		}
		u.db = int(n)
	}
	switch {
	case u.cluster && u.db != 0:
		return invalid("a cluster has database 0 only")
	case len(u.hosts) > 1 && !u.cluster && !sentinel:
		return invalid("several hosts are for ?cluster=true or redis+sentinel://")
	}
	return nil
}

func (u *address) query(query string) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return invalid("its options are name=value, with & between")
	}
	for name, values := range q {
		value := values[len(values)-1]
		switch name {
		case "cluster":
			u.cluster, err = flag(value)
		case "skip_verify":
			u.skipVerify, err = flag(value)
		case "ca":
			u.ca = value
		case "cert":
			u.cert = value
		case "key":
			u.key = value
		case "sentinel_user":
			u.sentinelUser = value
		case "sentinel_password":
			u.sentinelPassword = value
		default:
			return invalid("it has an option that is not known: use cluster, skip_verify, ca, cert, key, sentinel_user or sentinel_password")
		}
		if err != nil {
			return invalid("option %s is true or false", name)
		}
	}
	switch {
	case !u.secure && (u.skipVerify || u.ca != "" || u.cert != "" || u.key != ""):
		return invalid("skip_verify, ca, cert and key are for rediss:// (TLS)")
	case (u.cert == "") != (u.key == ""):
		return invalid("cert and key go together")
	}
	return nil
}

// flag reads a switch; its name alone switches it on.
func flag(value string) (bool, error) {
	if value == "" {
		return true, nil
	}
	return strconv.ParseBool(value)
}

// tls is the configuration of rediss; nil for redis.
func (u *address) tls() (*tls.Config, error) {
	if !u.secure {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: u.skipVerify}
	if u.ca != "" {
		pem, err := os.ReadFile(u.ca)
		if err != nil {
			return nil, fmt.Errorf("URL of Redis: ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("ca: %s holds no certificate in PEM form", u.ca)
		}
	}
	if u.cert != "" {
		pair, err := tls.LoadX509KeyPair(u.cert, u.key)
		if err != nil {
			return nil, fmt.Errorf("URL of Redis: cert and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func dial(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return d.DialContext(ctx, "tcp", addr)
	}
	return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
}
