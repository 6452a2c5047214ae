// Package redisconn opens connections to Redis for the backends on it, checks whether it keeps
// events safe, and gives its errors their kind. Use it wherever a configuration names a Redis,
// Valkey, Sentinel or Cluster by URL:
//
//	redis://[user:password@]host[:port][/db]        one server
//	rediss://host[:port]                            the same through TLS
//	redis://host1:port,host2:port?cluster=true      a cluster, by any of its nodes
//	redis+sentinel://host1,host2/master-name[/db]   whichever server the sentinels call master
//
// Options of TLS: skip_verify=true, ca=file, cert=file&key=file. Options of Sentinel, if the
// sentinels have their own password: sentinel_user, sentinel_password.
package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// Options tune a connection; the zero value is ready to use.
type Options struct {
	Name     string        // shown by CLIENT LIST; empty means "tidemill"
	Dial     time.Duration // how long a new connection may take; 0 means 5s
	Timeout  time.Duration // how long an answer may take; 0 means 10s
	Blocking int           // most connections for commands that wait; 0 means 64
	Idle     int           // of those, kept open while unused; 0 means none
	MaxIdle  time.Duration // how long the others stay open unused; 0 means 1m
	MaxAge   time.Duration // how old a connection may become; 0: any age
}

// Client is a connection, as backends use it.
type Client = rueidis.Client

// Open connects to the Redis at a URL and checks that it answers, before ctx ends. The client
// sends every command once: the engine decides whether to repeat. It caches nothing, so that it
// works with every server and proxy. No error shows the password.
func Open(ctx context.Context, url tidemill.Secret, o Options) (rueidis.Client, error) {
	u, err := parse(url.Reveal())
	if err != nil {
		return nil, err
	}
	co, err := u.options(o)
	if err != nil {
		return nil, err
	}
	opening := &opening{ctx: ctx}
	co.DialCtxFn = opening.dial
	stop := context.AfterFunc(ctx, opening.abort)
	client, err := rueidis.NewClient(co)
	if err == nil {
		if err = client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
			client.Close()
		}
	}
	stop()
	opening.end()
	switch {
	case err == nil:
		return client, nil
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return nil, u.redacted(Error(err, "connect to Redis at %s", u))
}

// options are those of the client library.
func (u *address) options(o Options) (rueidis.ClientOption, error) {
	tlsConfig, err := u.tls()
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	co := rueidis.ClientOption{
		InitAddress: slices.Clone(u.hosts), Username: u.user, Password: u.password, SelectDB: u.db, TLSConfig: tlsConfig,
		ClientName: or(o.Name, "tidemill"), ConnWriteTimeout: or(o.Timeout, 10*time.Second),
		Dialer:       net.Dialer{Timeout: or(o.Dial, 5*time.Second), KeepAlive: time.Second},
		DisableCache: true, DisableRetry: true, ForceSingleClient: !u.cluster,
		BlockingPoolSize: or(o.Blocking, 64), BlockingPoolMinSize: o.Idle, BlockingPoolCleanup: or(o.MaxIdle, time.Minute),
		ConnLifetime: o.MaxAge,
	}
	if u.master != "" {
		co.ForceSingleClient = false
		co.Sentinel = rueidis.SentinelOption{MasterSet: u.master, Username: u.sentinelUser, Password: u.sentinelPassword,
			ClientName: co.ClientName, Dialer: co.Dialer, TLSConfig: tlsConfig}
	}
	return co, nil
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// opening lets a context end the client library's work before it returns a client.
type opening struct {
	ctx context.Context

	mu    sync.Mutex
	done  bool
	conns []net.Conn
}

func (o *opening) dial(ctx context.Context, addr string, d *net.Dialer, config *tlsConfig) (net.Conn, error) {
	o.mu.Lock()
	done := o.done
	o.mu.Unlock()
	if done {
		return dial(ctx, addr, d, config)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(o.ctx, func() { cancel(context.Cause(o.ctx)) })()
	c, err := dial(ctx, addr, d, config)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.done {
		o.conns = append(o.conns, c)
	}
	return c, nil
}

// abort closes what was opened.
func (o *opening) abort() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.conns {
		_ = c.Close() // its waiters get the error
	}
}

// end stops that, so that connections live on.
func (o *opening) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done, o.conns = true, nil
}

// errNoAnswer is for a server that closes connections without an answer.
var errNoAnswer = errors.New("it closed the connection without an answer: is it a Redis, and does it want rediss:// (TLS)?")
