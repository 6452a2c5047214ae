package records

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// post takes records of a kind.
func (x *exchange) post(kind record.Kind) *answer.Problem {
	if p := x.authenticate(); p != nil {
		return p
	}
	l, p := x.load(kind)
	if p != nil {
		return p
	}
	if l.id == "" {
		return answer.BadRequest("missing_batch_id", fmt.Sprintf("there is no batch id: give it in the header %s, or as ?batch=", x.h.o.Header))
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
	if p := x.reserve(int64(len(raws)*recordMemory + len(x.body.Bytes))); p != nil {
		return p
	}
	back, p := x.admit(len(raws))
	if p != nil {
		return p
	}
	if err := l.judge(raws, lines); err != nil {
		x.h.stats.record(x.door, rejected, len(raws))
		return unreadable(err, lone)
	}
	x.h.stats.record(x.door, rejected, l.rejected)
	if len(l.records) == 0 {
		return noneGood(l, raws)
	}
	if p := x.put(l); p != nil {
		back()
		return p
	}
	x.answer(http.StatusAccepted, append(l.appendTo([]byte{'{'}), '}'))
	return nil
}

// load is what the request says beside its body.
func (x *exchange) load(kind record.Kind) (*load, *answer.Problem) {
	l := &load{kind: kind}
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return nil, answer.BadRequest("bad_query", "the query of the URL cannot be read: escape what is in it, such as ?batch=a%20b")
	}
	var said []string
	for _, name := range [...]string{x.h.o.Header, record.BatchHeaderToo} {
		said = append(said, x.r.Header.Values(name)...)
	}
	for i, s := range append(said, query["batch"]...) {
		batch, err := record.BatchID([]tidemill.Field{{Name: []byte(record.BatchHeader), Value: []byte(s)}}, "")
		switch {
		case err != nil:
			return nil, answer.BadRequest("bad_batch_id", err.Error()+fmt.Sprintf(": want 1 to %d bytes of UTF-8 without control characters", record.MaxBatchID))
		case i > 0 && batch != l.id:
			return nil, answer.BadRequest("bad_batch_id", "the request has several batch ids: all of its records are to be of one")
		}
		l.id = batch
	}
	if x.h.o.Expect == "" {
		return l, nil
	}
	for i, s := range x.r.Header.Values(x.h.o.Expect) {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
		if err != nil || i > 0 && int(n) != l.expect {
			return nil, answer.BadRequest("bad_expected_count", fmt.Sprintf("%s: want how many records the batch will have, once, 0 to %d", x.h.o.Expect, math.MaxInt32))
		}
		l.expect = int(n)
	}
	return l, nil
}

// read takes the body and inflates it, and says whether it has records in lines.
func (x *exchange) read() (lines bool, p *answer.Problem) {
	if lines, p = linesOf(x.r.Header["Content-Type"]); p != nil {
		return false, p
	}
	if _, p := request.Encoding(x.r, request.All); p != nil {
		return false, answer.Of(p)
	}
	limit := x.h.o.Limits.Body
	if p := x.body.Read(x.w, limit); p != nil {
		return false, answer.Of(p)
	}
	if p := x.body.Plain(request.All, limit); p != nil {
		return false, answer.Of(p)
	}
	return lines, nil
}

// linesOf says whether a body that says that it is of this type has records in lines.
func linesOf(said []string) (bool, *answer.Problem) {
	if len(said) == 0 || len(said) == 1 && (said[0] == "" || said[0] == "application/json") {
		return false, nil
	}
	t, parameters, err := mime.ParseMediaType(said[0])
	charset := strings.ToLower(parameters["charset"])
	if len(said) == 1 && err == nil && (charset == "" || charset == "utf-8") {
		switch t {
		case "application/json":
			return false, nil
		case "application/x-ndjson", "application/ndjson", "application/jsonl":
			return true, nil
		}
	}
	return false, answer.Unsupported(fmt.Sprintf("Content-Type %.60q: want application/json, or application/x-ndjson for records in lines", said[0]))
}

// split finds the records of the body. lone: it is one, neither in an array nor a line.
func (x *exchange) split(lines bool) (raws []raw, lone bool, p *answer.Problem) {
	b, most := bytes.Trim(x.body.Bytes, space), x.h.o.Limits.Records
	var err error
	switch {
	case len(b) == 0:
	case lines:
		raws, err = splitLines(x.body.Bytes, most)
	case b[0] == '[':
		raws, err = splitArray(b, most)
	default:
		return []raw{{bytes: b[:len(b):len(b)]}}, true, nil
	}
	switch {
	case errors.Is(err, errTooMany):
		return nil, false, answer.TooLarge(fmt.Sprintf("the body has more than %d records: send them in several requests", most))
	case err != nil:
		return nil, false, answer.BadRequest("malformed_json", "the body is no JSON: "+err.Error())
	case len(raws) == 0:
		return nil, false, answer.BadRequest("empty", "there is no record: one, an array of them, or lines of them are wanted")
	}
	return raws, false, nil
}

// unreadable is the problem of a body that is no JSON.
func unreadable(err error, lone bool) *answer.Problem {
	if bad, ok := errors.AsType[*broken](err); ok && lone {
		return answer.BadRequest("malformed_json", bad.why.Error()+"; records in lines are sent as Content-Type: application/x-ndjson")
	}
	return answer.BadRequest("malformed_json", "nothing is taken of an array that is no JSON: "+err.Error())
}

// noneGood is the problem of a request of which every record is refused.
func noneGood(l *load, raws []raw) *answer.Problem {
	p := &answer.Problem{Code: http.StatusUnprocessableEntity, Word: "validation_failed", Text: "no record is valid",
		More: func(b []byte) []byte { return l.appendRefused(number(b, "rejected", l.rejected)) }}
	if len(raws) == 1 {
		if p.Text = l.refused[0].why; len(raws[0].bytes) > record.MaxSize {
			p.Code, p.Word = http.StatusRequestEntityTooLarge, "too_large"
		}
	}
	return p
}
