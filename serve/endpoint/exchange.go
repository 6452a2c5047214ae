package endpoint

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/project"
)

// Exchange is one request and its answer, in memory that is used again.
type Exchange struct {
	W      http.ResponseWriter
	R      *http.Request
	Header http.Header // of the answer
	At     time.Time   // when the request came
	Path   int         // by which it is counted: of Metrics.Paths
	Body   request.Body
	Owner  request.Owner // of the key, once it is known

	// Trace is the request's own, under which its events go on; nil: they are not followed.
	Trace *tidemill.Trace

	core   *core
	sender [8]byte // the span that the request is under; zero: none
	code   int     // answered; 0: nothing yet
	came   []came  // what was counted, while somebody looks
}

func (x *Exchange) exchange() *Exchange { return x }

func (x *Exchange) open(c *core, w http.ResponseWriter, r *http.Request) {
	x.core, x.W, x.R, x.Header, x.At = c, w, r, w.Header(), c.o.Now()
	x.Body.Open(c.Bodies, r)
	x.secure()
}

// Values of headers, which are never written to.
var (
	jsonType = []string{"application/json"}
	hsts     = []string{"max-age=31536000; includeSubDomains"}
	bearer   = []string{"Bearer"}
)

// secure sets what every answer has.
func (x *Exchange) secure() {
	for _, h := range x.core.headers {
		x.Header[h.Name] = h.Values
	}
	if x.core.hsts && request.HTTPS(x.R, x.core.o.TrustProxy) {
		x.Header["Strict-Transport-Security"] = hsts
	}
}

// few is how many items a request has at most that goes before work. More take so long by themselves
// that their sender does not notice work, and work on whole batches is cheaper.
const few = 16

// Urgent is the context in which a request's items are made durable: where they are few, work gives way
// to it until what is returned is called.
func (x *Exchange) Urgent(ctx context.Context, items int) (urgent context.Context, done func()) {
	way, now := x.core.o.Way, x.core.o.Now
	if way == nil || items > few {
		return ctx, func() {}
	}
	came := now()
	way.Came(came)
	return giveway.First(ctx), func() { way.Answered(came, now()) }
}

// Said is the first value of a header of the request, empty where there is none. The name is
// in its canonical form.
func (x *Exchange) Said(name string) string {
	if v := x.R.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Authenticate finds whose key it is.
func (x *Exchange) Authenticate(key string) *request.Problem {
	if key == "" {
		return request.Unauthorized("an API key is needed, as X-API-Key or Authorization: Bearer")
	}
	ctx := x.R.Context()
	o, err := x.core.Keys.Find(ctx, key)
	switch {
	case err == nil:
		x.Owner = o
		x.Body.Vouch()
		return nil
	case errors.Is(err, project.ErrUnknown):
		x.core.Keys.Refused(ctx, request.Address(x.R, x.core.o.TrustProxy))
		return request.Unauthorized("the API key is not known")
	}
	// Logged when the store of projects does not answer, and a key is not among those that are
	// remembered; its sender is answered 503 and tries again.
	// To do: see whether the store of projects is well.
	x.core.o.Log.WarnContext(ctx, "ingest keys cannot be checked", "error", err)
	return request.Busy("projects", "keys cannot be checked now, please retry")
}

// Read takes the body, as it is sent and inflated at most limit bytes large.
func (x *Exchange) Read(allowed request.Encodings, limit int) *request.Problem {
	if _, p := request.Encoding(x.R, allowed); p != nil {
		return p
	}
	if p := x.Body.Read(x.W, limit); p != nil {
		return p
	}
	return x.Body.Plain(allowed, limit)
}

// MediaType is what the body says that it is: application/json, also where it says nothing,
// or one of others. It is in UTF-8; want says in words what there may be.
func (x *Exchange) MediaType(want string, others ...string) (string, *request.Problem) {
	const usual = "application/json"
	said := x.R.Header["Content-Type"]
	if len(said) == 0 || len(said) == 1 && (said[0] == "" || said[0] == usual) {
		return usual, nil
	}
	t, parameters, err := mime.ParseMediaType(said[0])
	charset := strings.ToLower(parameters["charset"])
	if len(said) > 1 || err != nil || t != usual && !slices.Contains(others, t) || charset != "" && charset != "utf-8" {
		return "", request.Unsupported("Content-Type %.60q: want %s", said[0], want)
	}
	return t, nil
}

// Reserve counts memory beside the body's; what is small always has room.
func (x *Exchange) Reserve(n int64) *request.Problem {
	if n > request.Small && !x.Body.Reserve(n) {
		return request.NoRoom()
	}
	return nil
}

// Admit counts n in the minute of a name, or says that they are too many. What is more than a
// whole minute's is let in where it is a minute's first. Back takes them out again.
func (x *Exchange) Admit(name string, n int, tooMany string) (back func(), p *request.Problem) {
	c, ctx := x.core, x.R.Context()
	l := Limit{c.PerMinute(), time.Minute}
	if l.Count <= 0 {
		return func() {}, nil
	}
	n = min(n, l.Count)
	s, _ := c.minutes.Admit(ctx, name, n, l) // in memory: never an error
	if !s.Admitted {
		return nil, &request.Problem{Status: http.StatusTooManyRequests, Reason: "rate_limited", Text: tooMany, After: int(s.Reset.Sub(c.o.Now())/time.Second) + 1}
	}
	return func() { _ = c.minutes.Return(ctx, name, n, l, s) }, nil
}

// Count notes what became of n items.
func (x *Exchange) Count(verdict string, n int) {
	if x.core.count(x.Path, verdict, n); n > 0 && x.core.watched() {
		x.came = append(x.came, came{verdict, n})
	}
}

// JSON answers with a body that is JSON.
func (x *Exchange) JSON(code int, body []byte) {
	x.Header["Content-Type"] = jsonType
	x.Send(code, body)
}

// counted is how long an answer is at most whose length the server itself finds: it does for
// what fits into its buffer of 2 KiB.
const counted = 1 << 10

// Send answers with a body whose type is in the header.
func (x *Exchange) Send(code int, body []byte) {
	x.Answered(code)
	head := x.R.Method == http.MethodHead
	if head || len(body) > counted {
		x.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	x.W.WriteHeader(code)
	if len(body) > 0 && !head {
		_, _ = x.W.Write(body) // a client that is gone needs no answer
	}
}

// Answered notes with what something else answers.
func (x *Exchange) Answered(code int) { x.code = code }

// RetryAfter says when a request may be sent again.
func (x *Exchange) RetryAfter(p *request.Problem) {
	if p.After > 0 {
		x.Header["Retry-After"] = []string{strconv.Itoa(p.After)}
	}
}

// Fail answers a problem with a word for programs and a text for people, and a name of the
// request for who asks about it:
//
//	{"error":"unauthorized","message":"the API key is not known","requestId":"…"}
func (x *Exchange) Fail(p *request.Problem) {
	x.RetryAfter(p)
	word := p.Reason
	switch p.Status {
	case http.StatusUnauthorized:
		x.Header["Www-Authenticate"] = bearer
	case http.StatusUnsupportedMediaType:
		word = "unsupported_media_type"
	case http.StatusServiceUnavailable: // why is ours to know
		word = "unavailable"
	}
	id := x.core.o.NewID().String()
	x.Header["X-Request-Id"] = []string{id}
	b := fmt.Appendf(make([]byte, 0, 256), `{"error":"%s","message":`, word)
	b = Quote(b, p.Text)
	if p.More != nil {
		b = p.More(b)
	}
	x.JSON(p.Status, append(append(append(b, `,"requestId":"`...), id...), `"}`...))
}
