package admin

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/delivery"
)

// letter is a dead letter as the API shows it. A payload that is no text is in base64.
type letter struct {
	Seq            int64             `json:"seq"`
	ID             string            `json:"id"`
	Pipeline       string            `json:"pipeline"`
	Partner        string            `json:"partner,omitempty"`    // that did not take it
	Project        string            `json:"project_id,omitempty"` // whose it is, where that is a project of analytics
	Site           string            `json:"site,omitempty"`       // whose it is, anywhere else
	Tenant         string            `json:"tenant,omitempty"`     // whose it is, of events of CRM
	Type           string            `json:"type,omitempty"`
	State          deadletter.State  `json:"state"`
	Reason         deadletter.Reason `json:"reason"`
	Kind           string            `json:"kind"`
	Cause          string            `json:"cause"`
	Tries          int               `json:"tries"` // failed ones, the last included
	Replays        int               `json:"replays"`
	First          time.Time         `json:"first_failed_at"`
	Last           time.Time         `json:"last_failed_at"`
	Payload        string            `json:"payload,omitempty"`
	PayloadBase64  string            `json:"payload_base64,omitempty"`
	Edited         *time.Time        `json:"edited_at,omitempty"` // the payload was replaced by hand; what was received:
	Original       string            `json:"original_payload,omitempty"`
	OriginalBase64 string            `json:"original_payload_base64,omitempty"`
	Fields         []field           `json:"fields,omitempty"`   // its headers, or the fields of a stream entry, as received
	Damaged        string            `json:"damaged,omitempty"`  // its stored bytes are not those that were put
	Row            json.RawMessage   `json:"row,omitempty"`      // what the work had made of it, or the destination's answer
	Attempts       []attempt         `json:"attempts,omitempty"` // failed tries before the last one
	History        []failure         `json:"history,omitempty"`  // each time it died
}

// field is one of a message's headers. A value that is no text is in base64.
type field struct {
	Name        string `json:"name"`
	Value       string `json:"value"`
	ValueBase64 string `json:"value_base64,omitempty"`
}

// attempt is one failed try.
type attempt struct {
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`
	Cause string    `json:"cause"`
}

type failure struct {
	At     time.Time       `json:"at"`
	Kind   string          `json:"kind"`
	Cause  string          `json:"cause"`
	Tries  int             `json:"tries"`
	Answer json.RawMessage `json:"answer,omitempty"` // of the destination to a replay
}

func show(l *deadletter.Letter, whole bool) letter {
	out := letter{Seq: l.Seq, ID: l.ID, Pipeline: l.Pipeline, Partner: partnerOf(l.Pipeline), Type: l.Type, State: l.State, Reason: deadletter.ReasonOf(l.Kind),
		Kind: l.Kind.String(), Cause: l.Cause, Tries: l.Tries, Replays: l.Replays, First: firstFailure(l), Last: l.Last.UTC(), Damaged: l.Damaged, Edited: when(l.Edited)}
	if _, err := uuid.Parse(l.Tenant); l.Pipeline == crm.Queue {
		out.Tenant = l.Tenant
	} else if err == nil {
		out.Project = l.Tenant
	} else {
		out.Site = l.Tenant
	}
	if n := len(l.History); n > 0 {
		out.Tries = l.History[n-1].Tries
	}
	out.Payload, out.PayloadBase64 = text(l.Payload)
	if !whole {
		return out
	}
	out.Original, out.OriginalBase64 = text(l.Original)
	out.Fields = fields(&l.Message)
	out.Attempts = attempts(queue.FailuresOf(&l.Message))
	if row := l.Answer(); json.Valid(row) {
		out.Row = row
	}
	for _, f := range l.History {
		h := failure{f.At.UTC(), f.Kind.String(), f.Cause, f.Tries, nil}
		if json.Valid(f.Answer) {
			h.Answer = f.Answer
		}
		out.History = append(out.History, h)
	}
	return out
}

// fields are the headers that came from outside: those that are ours are shown as what
// they mean.
func fields(m *tidemill.Message) (fs []field) {
	for _, h := range m.Header {
		if name := string(h.Name); name != event.MetaHeader && name != queue.FailuresHeader {
			f := field{Name: name}
			f.Value, f.ValueBase64 = text(h.Value)
			fs = append(fs, f)
		}
	}
	return fs
}

func attempts(failures []queue.Failure) (as []attempt) {
	for _, f := range failures {
		as = append(as, attempt{f.At.UTC(), f.Kind.String(), f.Cause})
	}
	return as
}

// text is bytes as they are, or in base64 where they are no text.
func text(b []byte) (plain, base string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return "", base64.StdEncoding.EncodeToString(b)
}

// firstFailure is when the message failed first, not only when it first died.
func firstFailure(l *deadletter.Letter) time.Time {
	if before := queue.FailuresOf(&l.Message); len(before) > 0 && before[0].At.Before(l.First) {
		return before[0].At.UTC()
	}
	return l.First.UTC()
}

// when is a time that may not have been.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// partnerOf is whose pipeline it is; empty: no partner's.
func partnerOf(pipeline string) string {
	partner, ok := strings.CutPrefix(pipeline, delivery.QueueOf(""))
	if !ok {
		return ""
	}
	return partner
}

// exported is a dead letter in the form that programs outside read, all of what they need
// to deliver or to explain it. The payload is text, byte for byte as received.
type exported struct {
	Original       string            `json:"originalPayload"`
	OriginalBase64 string            `json:"originalPayloadBase64,omitempty"` // where it is no text
	Error          string            `json:"error"`
	Attempts       int               `json:"attempts"` // all tries there ever were
	First          time.Time         `json:"firstFailure"`
	Last           time.Time         `json:"lastFailure"`
	Queue          string            `json:"queue"`
	Reason         deadletter.Reason `json:"reason"`
	ID             string            `json:"id"`
	Kind           string            `json:"kind"`
	Partner        string            `json:"partner,omitempty"`
	Site           string            `json:"site,omitempty"`
	Edited         *string           `json:"editedPayload,omitempty"`
	EditedBase64   string            `json:"editedPayloadBase64,omitempty"`
	Response       *response         `json:"response,omitempty"`
}

// response is what the destination answered the last time. The delivery pipelines keep it
// as the letter's row in this very form.
type response struct {
	Status     int    `json:"status"`
	Body       string `json:"body"`
	BodyBase64 string `json:"bodyBase64,omitempty"` // where it is no text
}

func export(l *deadletter.Letter) exported {
	out := exported{Error: l.Cause, First: firstFailure(l), Last: l.Last.UTC(), Queue: cmp.Or(l.To, l.Pipeline), Reason: deadletter.ReasonOf(l.Kind),
		ID: l.ID, Kind: l.Kind.String(), Partner: partnerOf(l.Pipeline), Site: l.Tenant}
	original := l.Payload
	if !l.Edited.IsZero() {
		original = l.Original
		edited, base := text(l.Payload)
		if out.EditedBase64 = base; base == "" {
			out.Edited = &edited
		}
	}
	out.Original, out.OriginalBase64 = text(original)
	for _, f := range l.History {
		out.Attempts += max(1, f.Tries)
	}
	var answer response
	if json.Unmarshal(l.Answer(), &answer) == nil && answer.Status > 0 {
		out.Response = &answer
	}
	return out
}
