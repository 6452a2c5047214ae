// Package clickhousehttp talks to ClickHouse over its HTTP interface, which every version has
// and every proxy lets through. Use it in backends on ClickHouse: statements by Exec, blocks of
// rows in the Native format by Insert, results by Query.
//
//	conn, err := clickhousehttp.Open(ctx, "https://ch.example:8443", clickhousehttp.Options{Database: "events"})
//	rows, err := conn.Query(ctx, "SELECT id, name FROM users WHERE team = {team:String}", clickhousehttp.Param("team", name))
//
// Requests are never repeated here, and no value becomes part of a statement: values are
// parameters. Errors carry the kind (tidemill.KindOf) that decides what happens next.
package clickhousehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
)

// Compression of requests.
type Compression string

// Compressions.
const (
	Auto Compression = ""     // none to this machine, gzip to others
	None Compression = "none" //
	Gzip Compression = "gzip" // fastest level: about 150 MB/s of a core
)

// Options tune a Conn; the zero value is ready to use.
type Options struct {
	Database string          // named by Conn.Database; the server's default if empty. It need not exist yet
	User     string          // empty: the URL's, else default
	Password tidemill.Secret // empty: the URL's, else none
	TLS      *tls.Config     // for https; nil: the system's roots, TLS 1.2 and newer

	Connections int           // most open connections, further requests wait; 0 means 8
	Dial        time.Duration // to connect, and again for TLS; 0 means 5s
	Timeout     time.Duration // of a whole request; 0 means 60s
	Compression Compression   // of blocks; gzip, as that is what all versions read
	MaxAnswer   int64         // bytes of one result; more is an error; 0 means 1 GiB
}

// Conn is a pool of connections to one ClickHouse. It is safe for concurrent use.
type Conn struct {
	url      url.URL // without user and query
	database string
	user     string
	password tidemill.Secret
	version  string
	gzip     bool
	timeout  time.Duration
	max      int64
	client   *http.Client
	pool     *http.Transport
}

// Open connects and asks for the server's version. The URL is http or https, host, port (8123
// and 8443 by default), and may name user, password and ?database=.
func Open(ctx context.Context, rawURL string, o Options) (*Conn, error) {
	c, err := configure(rawURL, o)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse: %w", err)
	}
	rows, err := c.Query(ctx, "SELECT version()")
	if err == nil {
		defer rows.Close()
		if rows.Next() {
			c.version = rows.String()
		}
		err = rows.Err()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("open ClickHouse at %s: %w", c.url.Host, err)
	}
	return c, nil
}

func configure(rawURL string, o Options) (*Conn, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the address is no URL such as http://localhost:8123 or https://host:8443") // not u: it may hold a password
	}
	c := &Conn{database: o.Database, user: o.User, password: o.Password, timeout: o.Timeout, max: o.MaxAnswer}
	for name, values := range u.Query() {
		if name != "database" || len(values) != 1 {
			return nil, fmt.Errorf("the URL has the parameter %q; it may have only one, database", name)
		}
		if c.database == "" {
			c.database = values[0]
		}
	}
	if c.user == "" {
		c.user = u.User.Username()
	}
	if c.user == "" {
		c.user = "default"
	}
	if p, ok := u.User.Password(); ok && c.password.IsZero() {
		c.password = tidemill.NewSecret(p)
	}
	c.url = url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if c.url.Path == "" {
		c.url.Path = "/"
	}
	if u.Port() == "" {
		c.url.Host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "8123", "https": "8443"}[u.Scheme])
	}
	switch o.Compression {
	case Auto:
		c.gzip = !loopback(u.Hostname())
	case Gzip:
		c.gzip = true
	case None:
	default:
		return nil, fmt.Errorf("compression %q: want none or gzip", o.Compression)
	}
	if o.Connections < 0 || o.Dial < 0 || o.Timeout < 0 || o.MaxAnswer < 0 {
		return nil, errors.New("a negative number of connections, time or size of answers")
	}
	if strings.ContainsAny(c.user+c.password.Reveal(), "\r\n\x00") {
		return nil, errors.New("user or password has a line end or NUL; look at how it was read")
	}
	if c.timeout == 0 {
		c.timeout = time.Minute
	}
	if c.max == 0 {
		c.max = 1 << 30
	}
	c.connect(o)
	return c, nil
}

func (c *Conn) connect(o Options) {
	if o.Connections == 0 {
		o.Connections = 8
	}
	if o.Dial == 0 {
		o.Dial = 5 * time.Second
	}
	t := o.TLS.Clone() // nil stays nil
	if t == nil {
		t = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c.pool = &http.Transport{
		DialContext:         (&net.Dialer{Timeout: o.Dial, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:     t,
		TLSHandshakeTimeout: o.Dial,
		MaxConnsPerHost:     o.Connections,
		MaxIdleConnsPerHost: o.Connections,
		// Servers close idle connections, old ones after 3 s. A request that meets a closing
		// connection is lost, so we close first.
		IdleConnTimeout:        2500 * time.Millisecond,
		DisableCompression:     true, // an inflated answer would have no limit
		MaxResponseHeaderBytes: 1 << 18,
		WriteBufferSize:        1 << 16,
		ReadBufferSize:         1 << 16,
	}
	c.client = &http.Client{
		Transport:     c.pool,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a password follows no redirect
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close ends idle connections; those in use end with their request.
func (c *Conn) Close() { c.pool.CloseIdleConnections() }

// Version is the server's version when the Conn was opened: "24.8.4.13".
func (c *Conn) Version() string { return c.version }

// Database is the requested database; empty: the server's default. Statements have to name it:
// requests name none, as it may not exist yet.
func (c *Conn) Database() string { return c.database }

// Account is the user and the password that requests are made with.
func (c *Conn) Account() (user string, password tidemill.Secret) { return c.user, c.password }

// Name quotes an identifier for a statement.
func Name(identifier string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(identifier) + "`"
}

// Text quotes a text for the few places of a statement that accept no parameter.
func Text(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\x00", `\0`).Replace(s) + "'"
}
