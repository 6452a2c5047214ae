package httpguard

import (
	"net/http"
	"net/url"
)

// UseProxy takes the place of the environment, which net/http reads once.
func (g *Guard) UseProxy(u *url.URL) { g.pool.Proxy = http.ProxyURL(u) }
