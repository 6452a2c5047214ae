package admin

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/internal/jsonarray"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// What one request may bring.
const (
	recordsBody = 8 << 20 // bytes
	recordsSent = 10_000  // records
)

// stored is what became of records.
type stored struct {
	Stored     int             `json:"stored"`     // in their window, durable
	Duplicates int             `json:"duplicates"` // their window had a record of that name, which they replace
	Refused    []refusedRecord `json:"refused"`    // the others are not held up by them
}

// refusedRecord is one that is wrong.
type refusedRecord struct {
	Index int    `json:"index"` // its place in the request, from 0
	Error string `json:"error"`
}

// sendRecords puts records of ?kind= into the window of ?batch= in ?project=, from somebody who
// may: no key of the project is needed. The body is an array, one object, or one object a line;
// ?expect= tells how many records the batch is to have, which closes its window early. The
// answer is given when they are durable.
func (a *API) sendRecords(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	batch := q.Get("batch")
	if err := record.CheckBatchID(batch); err != nil {
		return refused(http.StatusBadRequest, "batch=…: %v", err)
	}
	project, err := a.windowsProject(r.Context(), q.Get("project"))
	if err != nil {
		return err
	}
	kind, err := record.ParseKind(q.Get("kind"))
	if err != nil {
		return refused(http.StatusBadRequest, "%v", err)
	}
	expect, err := number(q.Get("expect"), "expect")
	if err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, recordsBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return refused(http.StatusRequestEntityTooLarge, "a request has at most %d MiB; send the records in several", recordsBody>>20)
	}
	if err != nil {
		return refused(http.StatusBadRequest, "%v", err)
	}
	raws, err := splitRecords(body)
	if err != nil {
		return err
	}
	out := stored{Refused: []refusedRecord{}}
	records := make([]window.Record, 0, len(raws))
	var read record.Record
	for i, raw := range raws {
		rec, err := record.ToWindow(record.NewBatch(project, batch), kind, raw, &read)
		if err != nil {
			out.Refused = append(out.Refused, refusedRecord{i, err.Error()})
			continue
		}
		rec.Expect = expect
		records = append(records, rec)
	}
	kept := make([]window.Kept, len(records))
	if len(records) > 0 {
		err = a.Windows.Put(r.Context(), records, kept)
	}
	if err != nil && passing(err) {
		w.Header().Set("Retry-After", "5")
		return refused(http.StatusServiceUnavailable, "%v", err)
	}
	if err != nil {
		return answerable(err)
	}
	for _, k := range kept {
		if k == window.New {
			out.Stored++
		} else {
			out.Duplicates++
		}
	}
	write(w, http.StatusOK, out)
	return nil
}

// splitRecords cuts a body into records, byte for byte: an array, one value that may go over
// several lines, or a line each, of which one that is no JSON is refused alone later.
func splitRecords(body []byte) (raws [][]byte, err error) {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return nil, refused(http.StatusBadRequest, "the request has no records: its body is an array of JSON objects, or one object a line")
	case body[0] == '[':
		raws, err = elements(body)
		if err != nil {
			return nil, refused(http.StatusBadRequest, "the body is no array in JSON: %v", err)
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
		return nil, refused(http.StatusRequestEntityTooLarge, "a request has at most %d records; send them in several", recordsSent)
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
