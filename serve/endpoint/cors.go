package endpoint

// CORS is what browsers may send and see. Any page may ask, with what credentials it likes:
// navigator.sendBeacon always sends some, and no endpoint reads a cookie.
type CORS struct {
	Methods []string // that pages may use; nil: those of the path
	Headers []string // that pages may send; nil: those that they ask for
	Expose  []string // headers of an answer that pages may see
	Code    int      // that answers OPTIONS
}

// Values of headers, which are never written to.
var (
	byOrigin = []string{"Origin"}
	allowed  = []string{"true"} // which forbids a "*" as the origin
	aDay     = []string{"86400"}
)

// allowOrigin lets a page read the answer, whatever page it is.
func (x *Exchange) allowOrigin() {
	x.Header["Vary"] = byOrigin
	if origin := x.R.Header["Origin"]; len(origin) == 1 && origin[0] != "" {
		x.Header["Access-Control-Allow-Origin"] = origin
		x.Header["Access-Control-Allow-Credentials"] = allowed
		x.Header["Access-Control-Expose-Headers"] = x.core.cors.Expose
	}
}

// TakeBack keeps the page from reading the answer after all.
func (x *Exchange) TakeBack() {
	delete(x.Header, "Access-Control-Allow-Origin")
	delete(x.Header, "Access-Control-Allow-Credentials")
}

// preflight answers what a browser asks before it sends.
func (x *Exchange) preflight(allow string) {
	c := x.core.cors
	x.Header["Allow"] = []string{allow}
	if x.Said("Access-Control-Request-Method") != "" {
		x.Header["Access-Control-Allow-Methods"] = c.Methods
		if c.Methods == nil {
			x.Header["Access-Control-Allow-Methods"] = []string{allow}
		}
		x.Header["Access-Control-Max-Age"] = aDay
		asked := x.R.Header["Access-Control-Request-Headers"]
		switch {
		case c.Headers != nil:
			x.Header["Access-Control-Allow-Headers"] = c.Headers
		case len(asked) > 0:
			x.Header["Access-Control-Allow-Headers"] = asked
			x.Header["Vary"] = []string{"Origin", "Access-Control-Request-Headers"}
		}
	}
	x.Answered(c.Code)
	x.W.WriteHeader(c.Code)
}
