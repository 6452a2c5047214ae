package redisdeadletter

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// Fields of an entry. Other programs read data.
const (
	fieldData     = "data"
	fieldPipeline = "pipeline"
	fieldTenant   = "tenant"
	fieldID       = "id"
	fieldReason   = "reason"   // the kind of the failure
	fieldError    = "error"    // in words
	fieldAttempts = "attempts" // failed tries
	fieldAt       = "at"       // when it died, RFC 3339
	fieldPayload  = "payload"  // as received; left out where it equals data
	fieldOriginal = "original" // as received, of a dead letter whose payload was edited
	fieldLetter   = "letter"   // the rest of the message, and the checksum
	fieldSeq      = "seq"      // written by commit.lua
)

// encodeEntry makes the fields of a dead letter's entry, names and values in turn.
func encodeEntry(r *deadletter.Record) []string {
	data, flags := []byte("{}"), byte(0)
	switch {
	case len(r.Row) > 0:
		data, flags = r.Row, dataIsRow
	case isObject(r.Payload):
		data = r.Payload
	}
	if bytes.Equal(r.Payload, data) {
		flags |= dataIsPayload
	}
	tries := 0
	if n := len(r.History); n > 0 {
		tries = r.History[n-1].Tries
	}
	fields := []string{fieldData, string(data), fieldPipeline, r.Pipeline, fieldTenant, r.Tenant, fieldID, r.ID,
		fieldReason, r.Kind.String(), fieldError, r.Cause, fieldAttempts, strconv.Itoa(tries),
		fieldAt, r.Last.Format("2006-01-02T15:04:05.000Z07:00"), fieldLetter, string(encodeLetter(r, flags))}
	if flags&dataIsPayload == 0 {
		fields = append(fields, fieldPayload, string(r.Payload))
	}
	if !r.Edited.IsZero() {
		fields = append(fields, fieldOriginal, string(r.Original))
	}
	return fields
}

// isObject says whether b is a JSON object that any reader accepts.
func isObject(b []byte) bool {
	v := jsontext.Value(b)
	return v.Kind() == '{' && v.IsValid(jsontext.AllowDuplicateNames(true))
}

// An entry of the stream as it was read.
type entry struct {
	id     string
	fields map[string]string
}

// foreign says that another program wrote the entry.
func (e *entry) foreign() bool { _, own := e.fields[fieldLetter]; return !own }

// message writes the message and the row of an entry into r, and says in r.Damaged what is
// wrong with it. It is also wrong if r was found by other names than the entry has.
func (e *entry) message(r *deadletter.Record) {
	switch {
	case len(e.fields) == 0:
		r.Damaged = "its entry is gone from the stream: somebody else trimmed or removed it; what is known of it can be looked at, not replayed"
		r.Cause = r.Damaged
		return
	case e.foreign():
		e.others(r)
		return
	}
	data := []byte(e.fields[fieldData])
	id, tenant, mark := r.ID, r.Tenant, r.Mark
	of, err := decodeLetter([]byte(e.fields[fieldLetter]), &r.Message)
	r.ID, r.Tenant, r.Mark = id, tenant, mark // those that it was found by
	if of.flags&dataIsRow != 0 {
		r.Row = data
	}
	if r.Payload = data; of.flags&dataIsPayload == 0 {
		r.Payload = []byte(e.fields[fieldPayload])
	}
	if of.flags&dataIsRow != 0 && of.flags&dataIsPayload != 0 {
		r.Payload = bytes.Clone(data)
	}
	if r.Edited, r.Original = of.edited, nil; !r.Edited.IsZero() {
		r.Original = []byte(e.fields[fieldOriginal])
	}
	if found := rules.SumOf(&r.Letter, of.head); err != nil || found != of.sum {
		r.Damaged = fmt.Sprintf("the stored message is damaged: its checksum is %016x, %016x was written; what is left of it can be looked at, not replayed", found, of.sum)
		r.Cause = r.Damaged
	}
}

// others makes the message of an entry that another program wrote: it has only the row.
func (e *entry) others(r *deadletter.Record) {
	ms, n := e.position()
	var of struct {
		Project string `json:"project_id"`
		Event   string `json:"event_name"`
	}
	data := e.fields[fieldData]
	_ = json.Unmarshal([]byte(data), &of, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) // only to find it by this
	r.Message = tidemill.Message{ID: e.id, Tenant: of.Project, Type: of.Event, Payload: []byte(data), Header: []tidemill.Field{},
		Time: time.UnixMilli(int64(ms)).UTC(), Mark: tidemill.Mark{Hi: ms, Lo: n}}
	if r.Row = nil; data != "" {
		r.Row = []byte(data)
	}
}

// position is the entry's id as two numbers.
func (e *entry) position() (ms, n uint64) {
	a, b, _ := strings.Cut(e.id, "-")
	ms, _ = strconv.ParseUint(a, 10, 64)
	n, _ = strconv.ParseUint(b, 10, 64)
	return ms, n
}

// letter makes a dead letter of an entry without companions, as it died.
func (e *entry) letter(pipeline string) *tidemill.DeadLetter {
	ms, _ := e.position()
	r := new(deadletter.Record)
	if e.foreign() {
		e.others(r)
		return &tidemill.DeadLetter{Pipeline: pipeline, Message: &r.Message, Kind: tidemill.Transient, Row: r.Row, At: time.UnixMilli(int64(ms)),
			Cause: "written to the stream by another program, which gives no reason"}
	}
	r.Pipeline, r.ID, r.Tenant = e.fields[fieldPipeline], e.fields[fieldID], e.fields[fieldTenant]
	_, _ = decodeLetter([]byte(e.fields[fieldLetter]), &r.Message) // a damaged one is shown as such
	r.ID, r.Tenant = e.fields[fieldID], e.fields[fieldTenant]
	l := &tidemill.DeadLetter{Pipeline: r.Pipeline, Message: &r.Message, Cause: e.fields[fieldError], At: time.UnixMilli(int64(ms))}
	l.Kind, _ = tidemill.ParseKind(e.fields[fieldReason])
	l.Tries, _ = strconv.Atoi(e.fields[fieldAttempts])
	if at, err := time.Parse(time.RFC3339Nano, e.fields[fieldAt]); err == nil {
		l.At = at
	}
	if l.Pipeline == "" {
		l.Pipeline = pipeline
	}
	return l
}

// edited is when the payload was edited; zero: never.
func (e *entry) edited() time.Time {
	of, _ := decodeLetter([]byte(e.fields[fieldLetter]), new(tidemill.Message))
	return of.edited
}

// seq is the number that the dead letter had, or 0.
func (e *entry) seq() int64 {
	if e.foreign() {
		return 0
	}
	n, err := strconv.ParseInt(e.fields[fieldSeq], 10, 64)
	if err != nil || n <= 0 || n >= newest {
		return 0
	}
	return n
}
