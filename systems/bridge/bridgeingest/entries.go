// Package bridgeingest takes entries of a bridge in over HTTP, where its stream is the embedded
// queue: what producers write into a Redis stream otherwise.
//
//	POST /api/v1/bridge/entries                 one entry: the body is its payload, byte for byte
//	POST … Content-Type: application/x-ndjson   one entry for each line
//
// It answers 202 {"ids":["…"]} once they are durable. With the header Idempotency-Key the
// ids are made of it, so that sending the same again adds nothing; without, they are new.
package bridgeingest

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
)

// Path is where it answers.
const Path = "/api/v1/bridge/entries"

// Options of the endpoint. Queue and Add are required. It asks for no key: whoever serves it
// guards it.
type Options struct {
	endpoint.Options
	Queue  string
	Add    queue.Intake
	Limits endpoint.Limits // by default bodies of 20 MiB, in 256 MiB of memory
}

const (
	maxKey      = 255 // bytes of an Idempotency-Key
	entryMemory = 512 // about what an entry takes beside its bytes
)

// exchange is one request and its answer.
type exchange struct {
	endpoint.Exchange
	o *Options
}

// New makes the endpoint.
func New(o Options) (http.Handler, error) {
	take := &endpoint.Route[*exchange]{Allow: http.MethodPost, Do: (*exchange).take}
	return endpoint.New(endpoint.Protocol[*exchange]{
		Name: "the bridge's entries", System: "bridge", New: func() *exchange { return &exchange{o: &o} },
		Find: func(*exchange) *endpoint.Route[*exchange] { return take }, Help: "entries are sent by POST", Fail: (*exchange).fail,
		Headers:  []endpoint.Header{{Name: "X-Content-Type-Options", Values: []string{"nosniff"}}},
		Defaults: endpoint.Limits{Body: 20 << 20, Memory: 256 << 20},
		Least:    func(l *endpoint.Limits) int64 { return 4 * int64(l.Body) }, // while it grows, and the queue's copy
	}, &o.Options, &o.Limits)
}

func (x *exchange) take() *request.Problem {
	x.Body.Vouch() // nobody comes here without the API's token
	key := x.R.Header.Get("Idempotency-Key")
	if len(key) > maxKey || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return request.BadRequest("the Idempotency-Key has up to %d printable characters", maxKey)
	}
	if p := x.Body.Read(x.W, x.o.Limits.Body); p != nil {
		return p
	}
	payloads := [][]byte{x.Body.Bytes}
	if typ, _, _ := mime.ParseMediaType(x.R.Header.Get("Content-Type")); typ == "application/x-ndjson" {
		payloads = payloads[:0]
		for line := range bytes.Lines(x.Body.Bytes) {
			if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
				payloads = append(payloads, line)
			}
		}
	}
	if len(payloads) == 0 || len(x.Body.Bytes) == 0 {
		return request.BadRequest("there is no entry in the body")
	}
	if p := x.Reserve(int64(len(payloads) * entryMemory)); p != nil {
		return p
	}
	ids := make([]string, len(payloads))
	jobs := make([]*tidemill.Message, len(payloads))
	for i, p := range payloads {
		switch {
		case key == "":
			ids[i] = x.o.NewID().String()
		case len(payloads) == 1:
			ids[i] = key
		default:
			ids[i] = fmt.Sprintf("%s/%d", key, i)
		}
		jobs[i] = &tidemill.Message{ID: ids[i], To: x.o.Queue, Payload: p, Time: x.At, Header: x.Trace.Put(nil)}
	}
	ctx, done := x.Urgent(x.R.Context(), len(jobs))
	defer done()
	if err := x.o.Add.Add(ctx, jobs, nil); err != nil {
		p := &request.Problem{Status: http.StatusServiceUnavailable, Text: "the entries could not be stored: " + err.Error(), After: 1}
		if tidemill.KindOf(err) == tidemill.Validation {
			p.Status, p.After = http.StatusBadRequest, 0
		}
		return p
	}
	x.say(http.StatusAccepted, "application/json", bridgeapi.Entries{IDs: ids})
	return nil
}

// fail answers as the API does.
func (x *exchange) fail(p *request.Problem) {
	said := operation.Refuse(p.Status, "%s", p.Text)
	said.After = p.After
	x.say(p.Status, operation.ProblemType, said)
}

func (x *exchange) say(code int, kind string, v any) {
	x.Answered(code)
	operation.Write(x.W, code, kind, v)
}
