package ingest

import (
	"net/http"

	"github.com/tidemill/tidemill/serve/request"
)

// read takes the request's body as it is sent, at most limit bytes.
func (x *exchange) read(limit int) *problem { return of(x.body.Read(x.w, limit)) }

// plain undoes the body's Content-Encoding.
func (x *exchange) plain(allowed request.Encodings, limit int) *problem {
	return of(x.body.Plain(allowed, limit))
}

// inflate undoes an encoding that the body is known to have.
func (x *exchange) inflate(encoding string, limit int) *problem {
	return of(x.body.Inflate(encoding, limit))
}

// of is a problem with the request itself.
func of(p *request.Problem) *problem {
	if p == nil {
		return nil
	}
	out := &problem{status: p.Status, reason: p.Reason, text: p.Text}
	if p.Status == http.StatusServiceUnavailable {
		out.after = retryBusy
	}
	return out
}
