package windowsingest

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// post takes records of a kind.
func (x *exchange) post(kind record.Kind) *request.Problem {
	if p := x.authenticate(); p != nil {
		return p
	}
	l, p := x.load(kind)
	if p != nil {
		return p
	}
	if l.id == "" {
		return request.Refuse(http.StatusBadRequest, "missing_batch_id", "there is no batch id: give it in the header %s, or as ?batch=", x.h.o.Header)
	}
	l.batch = record.NewBatch(x.project, l.id)
	lines, p := x.read()
	if p != nil {
		return p
	}
	raws, lone, p := x.split(lines)
	if p != nil {
		return p
	}
	if p := x.Reserve(int64(len(raws)*recordMemory + len(x.Body.Bytes))); p != nil {
		return p
	}
	back, p := x.admit(len(raws))
	if p != nil {
		return p
	}
	if err := l.judge(raws, lines); err != nil {
		x.Count(rejected, len(raws))
		return unreadable(err, lone)
	}
	x.Count(rejected, l.rejected)
	if len(l.records) == 0 {
		return noneGood(l, raws)
	}
	if p := x.put(l); p != nil {
		back()
		return p
	}
	x.JSON(http.StatusAccepted, append(l.appendTo([]byte{'{'}), '}'))
	return nil
}

// load is what the request says beside its body.
func (x *exchange) load(kind record.Kind) (*load, *request.Problem) {
	l := &load{kind: kind}
	if x.Trace != nil {
		l.trace = x.Trace.String()
	}
	query, err := url.ParseQuery(x.R.URL.RawQuery)
	if err != nil {
		return nil, request.Refuse(http.StatusBadRequest, "bad_query", "the query of the URL cannot be read: escape what is in it, such as ?batch=a%%20b")
	}
	var said []string
	for _, name := range [...]string{x.h.o.Header, record.BatchHeaderToo} {
		said = append(said, x.R.Header.Values(name)...)
	}
	for i, s := range append(said, query["batch"]...) {
		batch, err := record.BatchID([]tidemill.Field{{Name: []byte(record.BatchHeader), Value: []byte(s)}}, "")
		switch {
		case err != nil:
			return nil, request.Refuse(http.StatusBadRequest, "bad_batch_id", "%v: want 1 to %d bytes of UTF-8 without control characters", err, record.MaxBatchID)
		case i > 0 && batch != l.id:
			return nil, request.Refuse(http.StatusBadRequest, "bad_batch_id", "the request has several batch ids: all of its records are to be of one")
		}
		l.id = batch
	}
	if x.h.o.Expect == "" {
		return l, nil
	}
	for i, s := range x.R.Header.Values(x.h.o.Expect) {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
		if err != nil || i > 0 && int(n) != l.expect {
			return nil, request.Refuse(http.StatusBadRequest, "bad_expected_count", "%s: want how many records the batch will have, once, 0 to %d", x.h.o.Expect, math.MaxInt32)
		}
		l.expect = int(n)
	}
	return l, nil
}

// read takes the body and inflates it, and says whether it has records in lines.
func (x *exchange) read() (lines bool, p *request.Problem) {
	t, p := x.MediaType("application/json, or application/x-ndjson for records in lines", "application/x-ndjson", "application/ndjson", "application/jsonl")
	if p == nil {
		p = x.Read(request.All, x.h.o.Limits.Body)
	}
	return t != "application/json", p
}

// split finds the records of the body. lone: it is one, neither in an array nor a line.
func (x *exchange) split(lines bool) (raws []raw, lone bool, p *request.Problem) {
	b, most := bytes.Trim(x.Body.Bytes, space), x.h.o.Limits.Items
	var err error
	switch {
	case len(b) == 0:
	case lines:
		raws, err = splitLines(x.Body.Bytes, most)
	case b[0] == '[':
		raws, err = splitArray(b, most)
	default:
		return []raw{{bytes: b[:len(b):len(b)]}}, true, nil
	}
	switch {
	case errors.Is(err, errTooMany):
		return nil, false, request.TooLarge("the body has more than %d records: send them in several requests", most)
	case err != nil:
		return nil, false, request.Malformed("the body is no JSON: %v", err)
	case len(raws) == 0:
		return nil, false, request.Refuse(http.StatusBadRequest, "empty", "there is no record: one, an array of them, or lines of them are wanted")
	}
	return raws, false, nil
}

// unreadable is the problem of a body that is no JSON.
func unreadable(err error, lone bool) *request.Problem {
	if bad, ok := errors.AsType[*broken](err); ok && lone {
		return request.Malformed("%v; records in lines are sent as Content-Type: application/x-ndjson", bad.why)
	}
	return request.Malformed("nothing is taken of an array that is no JSON: %v", err)
}

// noneGood is the problem of a request of which every record is refused.
func noneGood(l *load, raws []raw) *request.Problem {
	p := &request.Problem{Status: http.StatusUnprocessableEntity, Reason: "validation_failed", Text: "no record is valid",
		More: func(b []byte) []byte { return l.appendRefused(endpoint.Number(b, "rejected", l.rejected)) }}
	if len(raws) == 1 {
		if p.Text = l.refused[0].why; len(raws[0].bytes) > record.MaxSize {
			p.Status, p.Reason = http.StatusRequestEntityTooLarge, "too_large"
		}
	}
	return p
}
