// Package opensearchhttp talks to OpenSearch or Elasticsearch over their common HTTP interface.
// Use it in backends on either of them.
//
//	conn, err := opensearchhttp.Open(ctx, "https://user:password@search.example:9200", opensearchhttp.Options{})
//	answer, err := conn.Do(ctx, "GET", "/_cluster/health", nil)
//
// Requests are never repeated here. Errors carry the kind (tidemill.KindOf) that decides what
// happens next; answers are bounded; passwords and keys never show.
package opensearchhttp

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

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill"
)

// Compression of requests.
type Compression string

// Compressions.
const (
	Auto Compression = ""     // none to this machine, gzip to others
	None Compression = "none" //
	Gzip Compression = "gzip" // fastest level
)

// Options tune a Conn; the zero value is ready to use.
type Options struct {
	User     string          // empty: the URL's, else no account
	Password tidemill.Secret // empty: the URL's
	APIKey   tidemill.Secret // of Elasticsearch, as issued in base64; empty: the URL's ?api_key=. It goes before User
	TLS      *tls.Config     // for https; nil: the system's roots, TLS 1.2 and newer

	Connections int           // most open connections, further requests wait; 0 means 8
	Dial        time.Duration // to connect, and again for TLS; 0 means 5s
	Timeout     time.Duration // of a whole request; 0 means 60s
	Compression Compression   // of requests above a kilobyte
	MaxAnswer   int64         // bytes of an answer; more is an error; 0 means 64 MiB
}

// Products.
const (
	OpenSearch    = "OpenSearch"
	Elasticsearch = "Elasticsearch"
)

// Conn is a pool of connections to one address of a cluster. It is safe for concurrent use.
type Conn struct {
	url      url.URL // without user and query
	user     string
	password tidemill.Secret
	key      tidemill.Secret
	gzip     bool
	timeout  time.Duration
	max      int64
	client   *http.Client
	pool     *http.Transport
	product  string
	version  string
}

// Open connects and asks for product and version. The URL is http or https, host, port (9200 by
// default), perhaps a path, and may name user, password and ?api_key=.
func Open(ctx context.Context, rawURL string, o Options) (*Conn, error) {
	c, err := configure(rawURL, o)
	if err != nil {
		return nil, fmt.Errorf("open the search server: %w", err)
	}
	if err := c.ask(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("open the search server at %s: %w", c.url.Host, err)
	}
	return c, nil
}

// ask finds out product and version. An account that may write documents need not be allowed to
// ask for them.
func (c *Conn) ask(ctx context.Context) error {
	header, answer, err := c.do(ctx, http.MethodGet, "/", "", nil)
	var said struct {
		Version struct {
			Number       string `json:"number"`
			Distribution string `json:"distribution"`
		} `json:"version"`
	}
	if status := Status(err); err != nil && status != http.StatusMethodNotAllowed && status != http.StatusForbidden {
		return err
	}
	if err == nil && json.Unmarshal(answer, &said) != nil {
		return tidemill.Fail(tidemill.Transient, "its answer is not that of OpenSearch or Elasticsearch; look at the address")
	}
	c.version = said.Version.Number
	switch {
	case said.Version.Distribution == "opensearch":
		c.product = OpenSearch
	case header.Get("X-Elastic-Product") == Elasticsearch || c.version != "":
		c.product = Elasticsearch
	case err == nil:
		return tidemill.Fail(tidemill.Transient, "its answer is not that of OpenSearch or Elasticsearch; look at the address")
	}
	return nil
}

func configure(rawURL string, o Options) (*Conn, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the address is no URL such as http://localhost:9200 or https://host:9200") // not u: it may hold a password
	}
	c := &Conn{user: o.User, password: o.Password, key: o.APIKey, timeout: o.Timeout, max: o.MaxAnswer}
	for name, values := range u.Query() {
		if name != "api_key" || len(values) != 1 {
			return nil, fmt.Errorf("the URL has the parameter %q; it may have only one, api_key", name)
		}
		if c.key.IsZero() {
			c.key = tidemill.NewSecret(values[0])
		}
	}
	if c.user == "" {
		c.user = u.User.Username()
	}
	if p, ok := u.User.Password(); ok && c.password.IsZero() {
		c.password = tidemill.NewSecret(p)
	}
	if c.user == "" && !c.password.IsZero() || strings.Contains(c.user, ":") {
		return nil, errors.New("there is a password without a user, or the user's name has a colon")
	}
	if strings.ContainsAny(c.user+c.password.Reveal()+c.key.Reveal(), "\r\n\x00") {
		return nil, errors.New("user, password or key has a line end or NUL; look at how it was read")
	}
	c.url = url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}
	if u.Port() == "" {
		c.url.Host = net.JoinHostPort(u.Hostname(), "9200")
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
	if c.timeout == 0 {
		c.timeout = time.Minute
	}
	if c.max == 0 {
		c.max = 64 << 20
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
		DialContext:            (&net.Dialer{Timeout: o.Dial, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:        t,
		TLSHandshakeTimeout:    o.Dial,
		MaxConnsPerHost:        o.Connections,
		MaxIdleConnsPerHost:    o.Connections,
		IdleConnTimeout:        30 * time.Second, // balancers close idle ones after a minute
		DisableCompression:     true,             // an inflated answer would have no limit
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

// Product is OpenSearch or Elasticsearch; empty: unknown.
func (c *Conn) Product() string { return c.product }

// Version is the server's version when the Conn was opened: "2.19.5"; empty: unknown.
func (c *Conn) Version() string { return c.version }

// Host is the server's host:port.
func (c *Conn) Host() string { return c.url.Host }
