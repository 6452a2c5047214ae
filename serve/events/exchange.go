package events

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// exchange is one request and its answer, in memory that is used again.
type exchange struct {
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	header http.Header // of the answer
	door   door
	rest   string // of the path: a name
	at     time.Time
	code   int // answered; 0: nothing yet
	body   request.Body
	day    day // what the site's day was charged

	site   string
	set    Site
	items  []accept.Item
	many   bool // the body is an array
	ask    accept.Request
	fields [4]tidemill.Field
	agent  []byte   // in fields, as stamp is
	stamp  [24]byte // when the request came
}

func (x *exchange) open(h *Handler, w http.ResponseWriter, r *http.Request) {
	x.h, x.w, x.r, x.header, x.at = h, w, r, w.Header(), h.o.Now().UTC()
	x.body.Open(h.bodies, r)
	x.secure()
}

// said is the first value of a header of the request, empty where there is none. The name is
// in its canonical form.
func (x *exchange) said(name string) string {
	if v := x.r.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// maxItems is how many items of an exchange are used again.
const maxItems = 64

// end gives back all memory and counts the request.
func (x *exchange) end() {
	h := x.h
	h.running.Add(-1)
	h.stats.request(x.door, x.code, h.o.Now().Sub(x.at))
	x.body.Close()
	clear(x.items)
	items := x.items[:0]
	if cap(items) > maxItems {
		items = nil
	}
	*x = exchange{items: items, agent: x.agent[:0]}
	h.exchanges.Put(x)
}

// Values of headers, which are never written to.
var (
	nosniff  = []string{"nosniff"}
	deny     = []string{"DENY"}
	referrer = []string{"strict-origin-when-cross-origin"}
	hsts     = []string{"max-age=31536000; includeSubDomains"}
	jsonType = []string{"application/json"}
)

// secure sets what every answer has.
func (x *exchange) secure() {
	x.header["X-Content-Type-Options"] = nosniff
	x.header["X-Frame-Options"] = deny
	x.header["Referrer-Policy"] = referrer
	if x.r.TLS != nil || x.said("X-Forwarded-Proto") == "https" && x.fromProxy() {
		x.header["Strict-Transport-Security"] = hsts
	}
}

// Secured answers as the doors do, with the headers that every answer of theirs has.
func (h *Handler) Secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(&exchange{h: h, r: r, header: w.Header()}).secure()
		next.ServeHTTP(w, r)
	})
}

// fromProxy says whether the connection is a trusted proxy's.
func (x *exchange) fromProxy() bool {
	peer := request.Address(x.r, nil)
	for _, p := range x.h.o.TrustProxy {
		if p.Contains(peer) {
			return true
		}
	}
	return false
}

// address is the sender's, as it is counted: an IPv6 network of 64 bits is one.
func (x *exchange) address() string {
	a := request.Address(x.r, x.h.o.TrustProxy)
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	if a == (netip.Addr{}) {
		return "unknown"
	}
	return a.String()
}

// answer ends the exchange with JSON.
func (x *exchange) answer(code int, body []byte) {
	x.header["Content-Type"] = jsonType
	x.send(code, body)
}

func (x *exchange) send(code int, body []byte) {
	x.code = code
	if len(body) > counted {
		x.header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	x.w.WriteHeader(code)
	_, _ = x.w.Write(body) // a client that is gone needs no answer
}

// counted is how long an answer is at most whose length the server itself finds: it does for
// what fits into its buffer of 2 KiB.
const counted = 1 << 10

// problem is why a request is not taken.
type problem struct {
	code  int
	error string // a word of a fixed set
	text  string
	after int                         // seconds, Retry-After; 0: none
	more  func(b []byte) (ext []byte) // appends more members of the answer, each with a comma before it; nil: none
}

func badRequest(error, text string) *problem {
	return &problem{http.StatusBadRequest, error, text, 0, nil}
}

func forbidden(error, text string) *problem {
	return &problem{http.StatusForbidden, error, text, 0, nil}
}

func notFound(text string) *problem {
	return &problem{http.StatusNotFound, "not_found", text, 0, nil}
}

// busy is back-pressure: the same request may succeed later, and is safe to repeat.
func busy(text string) *problem {
	return &problem{http.StatusServiceUnavailable, "unavailable", text, retryBusy, nil}
}

const (
	retryBusy    = 5 // seconds
	retryRunning = 1
)

// of is a problem with the request itself.
func of(p *request.Problem) *problem {
	switch p.Status {
	case http.StatusServiceUnavailable:
		return busy(p.Text)
	case http.StatusUnsupportedMediaType:
		return &problem{p.Status, "unsupported_media_type", p.Text, 0, nil}
	}
	return &problem{p.Status, p.Reason, p.Text, 0, nil}
}

// retryAfter says when a request may be sent again.
func (x *exchange) retryAfter(p *problem) {
	if p.after > 0 {
		x.header["Retry-After"] = []string{strconv.Itoa(p.after)}
	}
}

// fail says a problem.
func (x *exchange) fail(p *problem) {
	x.retryAfter(p)
	x.answer(p.code, x.words(p))
}

// words are a problem as JSON.
func (x *exchange) words(p *problem) []byte {
	id := x.h.o.NewID().String()
	x.header["X-Request-Id"] = []string{id}
	b := append(make([]byte, 0, 256), `{"error":"`...)
	b = append(append(b, p.error...), `","message":`...)
	b = event.Quote(b, p.text)
	if p.more != nil {
		b = p.more(b)
	}
	b = append(append(b, `,"requestId":"`...), id...)
	return append(b, `"}`...)
}
