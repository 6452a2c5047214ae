package windowsapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/internal/jsonarray"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// recordsSent is how many records one request may bring.
const recordsSent = 10_000

// sendRecords puts records of a kind into the window of a batch id, from somebody who may: no key of
// the project is needed. The answer is given when they are durable.
func (a *API) sendRecords(ctx context.Context, q *SentRecords) (out StoredRecords, err error) {
	if err := record.CheckBatchID(q.Batch); err != nil {
		return out, operation.Refuse(http.StatusBadRequest, "batch=…: %v", err)
	}
	project, err := a.windowsProject(ctx, q.Project)
	if err != nil {
		return out, err
	}
	kind, err := record.ParseKind(q.Kind)
	if err != nil {
		return out, operation.Refuse(http.StatusBadRequest, "%v", err)
	}
	raws, err := splitRecords(q.Body)
	if err != nil {
		return out, err
	}
	out.Refused = []RefusedRecord{}
	records := make([]window.Record, 0, len(raws))
	var read record.Record
	for i, raw := range raws {
		rec, err := record.ToWindow(record.NewBatch(project, q.Batch), kind, raw, &read)
		if err != nil {
			out.Refused = append(out.Refused, RefusedRecord{Index: i, Error: err.Error()})
			continue
		}
		rec.Expect = q.Expect
		records = append(records, rec)
	}
	kept := make([]window.Kept, len(records))
	if len(records) > 0 {
		err = a.Windows.Put(ctx, records, kept)
	}
	if err != nil && answer.Passing(err) {
		return out, answer.Busy(err)
	}
	if err != nil {
		return out, answer.Answerable(err)
	}
	for _, k := range kept {
		if k == window.New {
			out.Stored++
		} else {
			out.Duplicates++
		}
	}
	return out, nil
}

// splitRecords cuts a body into records, byte for byte: an array, one value that may go over
// several lines, or a line each, of which one that is no JSON is refused alone later.
func splitRecords(body []byte) (raws [][]byte, err error) {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return nil, operation.Refuse(http.StatusBadRequest, "the request has no records: its body is an array of JSON objects, or one object a line")
	case body[0] == '[':
		raws, err = elements(body)
		if err != nil {
			return nil, operation.Refuse(http.StatusBadRequest, "the body is no array in JSON: %v", err)
		}
	case jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true)):
		raws = [][]byte{body}
	default:
		for line := range bytes.Lines(body) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				raws = append(raws, line)
			}
			if len(raws) > recordsSent {
				break
			}
		}
	}
	if len(raws) > recordsSent {
		return nil, operation.Refuse(http.StatusRequestEntityTooLarge, "a request has at most %d records; send them in several", recordsSent)
	}
	return raws, nil
}

// elements are those of an array, at most one more than may be sent.
func elements(body []byte) (raws [][]byte, err error) {
	for v, err := range jsonarray.Elements(body) {
		switch {
		case errors.Is(err, jsonarray.ErrBehind):
			return nil, errors.New("there is something behind it")
		case err != nil:
			return nil, err
		}
		if raws = append(raws, v); len(raws) > recordsSent {
			break
		}
	}
	return raws, nil
}
