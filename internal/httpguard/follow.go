package httpguard

import (
	"errors"
	"fmt"
	"net/http"
)

// maxRedirects is how many redirects a client of Following follows for one request.
const maxRedirects = 10

// Following makes a client of a Guard that follows up to 10 redirects, each checked like the
// first request: for downloads whose address moves. It goes from http to https, never back, and
// to no other scheme. Another host gets neither the URL, which may hold a key, nor our
// credentials.
func Following(guard http.RoundTripper) *http.Client {
	return &http.Client{Transport: guard, CheckRedirect: checkRedirect}
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	from, to := via[len(via)-1].URL.Scheme, req.URL.Scheme
	switch {
	case len(via) >= maxRedirects:
		return errors.New("more than 10 redirects")
	case to != from && to != "https":
		return fmt.Errorf("redirect from %.20s to %.20s refused", from, to)
	}
	req.Header.Del("Referer")
	if req.URL.Host != via[0].URL.Host { // net/http keeps it for other ports and subdomains
		req.Header.Del("Authorization")
	}
	return nil
}
