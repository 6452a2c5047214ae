package httpguard

import (
	"net/http"
	"net/url"
)

// UseProxy replaces the proxy of the environment, which net/http reads once.
func (g *Guard) UseProxy(u *url.URL) { g.pool.Proxy = http.ProxyURL(u) }
