package events

import "net/http"

// What browsers may see and send.
var (
	byOrigin = []string{"Origin"}
	allowed  = []string{"true"}
	exposed  = []string{"Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id"}
	anyTime  = []string{"86400"}
	methods  = []string{"GET, POST, OPTIONS"}
	headers  = []string{"Content-Type, Content-Encoding, Authorization, X-API-Key, X-Idempotency-Key, X-Schema-Version, X-Priority, Sec-GPC"}
)

// allowOrigin lets a page read the answer, whatever page it is: whose event it sends is
// known only later, and checkOrigin then takes it back. Credentials are allowed because
// navigator.sendBeacon always sends with them; nothing here reads a cookie.
func (x *exchange) allowOrigin() {
	x.header["Vary"] = byOrigin
	if origin := x.r.Header["Origin"]; len(origin) == 1 {
		x.header["Access-Control-Allow-Origin"] = origin
		x.header["Access-Control-Allow-Credentials"] = allowed
		x.header["Access-Control-Expose-Headers"] = exposed
	}
}

// checkOrigin refuses a page that the site does not allow to send.
func (x *exchange) checkOrigin() *problem {
	origin := x.said("Origin")
	if x.set.allows(origin) {
		return nil
	}
	delete(x.header, "Access-Control-Allow-Origin")
	delete(x.header, "Access-Control-Allow-Credentials")
	return forbidden("origin_not_allowed", "the site takes no events from pages of this origin")
}

// preflight answers what a browser asks before it sends.
func (x *exchange) preflight() *problem {
	x.header["Access-Control-Allow-Methods"] = methods
	x.header["Access-Control-Allow-Headers"] = headers
	x.header["Access-Control-Max-Age"] = anyTime
	x.code = http.StatusNoContent
	x.w.WriteHeader(x.code)
	return nil
}
