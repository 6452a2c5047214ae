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
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/delivery"
)

func show(l *deadletter.Letter, whole bool) api.DeadLetter {
	out := api.DeadLetter{Seq: l.Seq, ID: l.ID, Pipeline: l.Pipeline, Partner: partnerOf(l.Pipeline), Type: l.Type, State: string(l.State), Reason: string(deadletter.ReasonOf(l.Kind)),
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
		h := api.Failure{Attempt: last(f), Tries: f.Tries}
		if json.Valid(f.Answer) {
			h.Answer = f.Answer
		}
		out.History = append(out.History, h)
	}
	return out
}

// fields are the headers that came from outside: those that are ours are shown as what
// they mean.
func fields(m *tidemill.Message) (fs []api.Field) {
	for _, h := range m.Header {
		if name := string(h.Name); name != event.MetaHeader && name != queue.FailuresHeader {
			f := api.Field{Name: name}
			f.Value, f.ValueBase64 = text(h.Value)
			fs = append(fs, f)
		}
	}
	return fs
}

func attempts(failures []queue.Failure) (as []api.Attempt) {
	for _, f := range failures {
		as = append(as, api.Attempt{At: f.At.UTC(), Kind: f.Kind.String(), Cause: f.Cause})
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

func export(l *deadletter.Letter) *api.ExportedDead {
	out := &api.ExportedDead{Error: l.Cause, First: firstFailure(l), Last: l.Last.UTC(), Queue: cmp.Or(l.To, l.Pipeline), Reason: string(deadletter.ReasonOf(l.Kind)),
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
	var answer api.Response
	if json.Unmarshal(l.Answer(), &answer) == nil && answer.Status > 0 {
		out.Response = &answer
	}
	return out
}
