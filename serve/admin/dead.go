package admin

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// letter is a dead letter as the API shows it. A payload that is no text is in base64.
type letter struct {
	Seq           int64            `json:"seq"`
	ID            string           `json:"id"`
	Pipeline      string           `json:"pipeline"`
	Project       string           `json:"project_id,omitempty"`
	Type          string           `json:"type,omitempty"`
	State         deadletter.State `json:"state"`
	Kind          string           `json:"kind"`
	Cause         string           `json:"cause"`
	Tries         int              `json:"tries"`
	Replays       int              `json:"replays"`
	First         time.Time        `json:"first_failed_at"`
	Last          time.Time        `json:"last_failed_at"`
	Payload       string           `json:"payload,omitempty"`
	PayloadBase64 string           `json:"payload_base64,omitempty"`
	Fields        []field          `json:"fields,omitempty"`  // of a stream entry, as received
	Damaged       string           `json:"damaged,omitempty"` // its stored bytes are not those that were put
	Row           json.RawMessage  `json:"row,omitempty"`
	History       []failure        `json:"history,omitempty"`
}

// field is one of a stream entry's. A value that is no text is in base64.
type field struct {
	Name        string `json:"name"`
	Value       string `json:"value"`
	ValueBase64 string `json:"value_base64,omitempty"`
}

type failure struct {
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`
	Cause string    `json:"cause"`
	Tries int       `json:"tries"`
}

func show(l *deadletter.Letter, whole bool) letter {
	out := letter{Seq: l.Seq, ID: l.ID, Pipeline: l.Pipeline, Project: l.Tenant, Type: l.Type, State: l.State,
		Kind: l.Kind.String(), Cause: l.Cause, Tries: l.Tries, Replays: l.Replays, First: l.First.UTC(), Last: l.Last.UTC(), Damaged: l.Damaged}
	if utf8.Valid(l.Payload) {
		out.Payload = string(l.Payload)
	} else {
		out.PayloadBase64 = base64.StdEncoding.EncodeToString(l.Payload)
	}
	if !whole {
		return out
	}
	for _, h := range l.Header {
		if string(h.Name) == event.MetaHeader {
			continue
		}
		f := field{Name: string(h.Name), Value: string(h.Value)}
		if !utf8.Valid(h.Value) {
			f.Value, f.ValueBase64 = "", base64.StdEncoding.EncodeToString(h.Value)
		}
		out.Fields = append(out.Fields, f)
	}
	if json.Valid(l.Row) {
		out.Row = l.Row
	}
	for _, f := range l.History {
		out.History = append(out.History, failure{f.At.UTC(), f.Kind.String(), f.Cause, f.Tries})
	}
	return out
}

// chosen reads which letters are meant: from the query of a listing, or the form of a
// change.
func (a *API) chosen(r *http.Request) (f deadletter.Filter, err error) {
	if err := r.ParseForm(); err != nil {
		return f, refused(http.StatusBadRequest, "%v", err)
	}
	f = deadletter.Filter{Pipeline: r.Form.Get("pipeline"), IDs: r.Form["id"]}
	if err := f.Check(); err != nil {
		return f, refused(http.StatusBadRequest, "%v", err)
	}
	if p := r.Form.Get("project"); p != "" {
		id, err := a.find(r.Context(), p)
		if unknown, err2 := uuid.Parse(p); err != nil && err2 == nil {
			id, err = unknown, nil // letters may be of a project that there is not
		}
		if err != nil {
			return f, err
		}
		f.Tenant = id.String()
	}
	for _, k := range r.Form["kind"] {
		kind, err := tidemill.ParseKind(k)
		if err != nil {
			return f, refused(http.StatusBadRequest, "%v", err)
		}
		f.Kinds = append(f.Kinds, kind)
	}
	if f.Before, err = moment(r.Form.Get("before"), "before"); err != nil {
		return f, err
	}
	f.Max, err = number(r.Form.Get("max"), "max")
	return f, err
}

func (a *API) dead(w http.ResponseWriter, r *http.Request) error {
	f, err := a.chosen(r)
	if err != nil {
		return err
	}
	out := stream(w, r)
	for l, err := range a.Letters.List(r.Context(), f) {
		if err != nil {
			return out.end(err)
		}
		if err := out.add(show(l, false)); err != nil {
			return out.end(err)
		}
	}
	return nil
}

// letter shows one letter, by its number or its message's id.
func (a *API) letter(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("letter")
	seq, err := strconv.ParseInt(name, 10, 64)
	var f deadletter.Filter
	if err != nil {
		f.IDs = []string{name}
	}
	for l, err := range a.Letters.List(r.Context(), f) {
		if err != nil {
			return err
		}
		if f.IDs != nil || l.Seq == seq {
			write(w, http.StatusOK, show(l, true))
			return nil
		}
		if l.Seq > seq { // they come in this order
			break
		}
	}
	return refused(http.StatusNotFound, "there is no dead letter %s; `tidemill dead list` shows them", name)
}

func (a *API) replay(w http.ResponseWriter, r *http.Request) error { return a.move(w, r, "replay") }

func (a *API) discard(w http.ResponseWriter, r *http.Request) error { return a.move(w, r, "delete") }

// move replays or discards the chosen letters; with ?dry_run it only counts them. To mean
// all of them is to say so.
func (a *API) move(w http.ResponseWriter, r *http.Request, what string) error {
	f, err := a.chosen(r)
	if err != nil {
		return err
	}
	if len(f.IDs) == 0 && len(f.Kinds) == 0 && f.Tenant == "" && f.Pipeline == "" && f.Before.IsZero() && f.Max == 0 && r.Form.Get("all") != "true" {
		return refused(http.StatusBadRequest, "say which letters to %s: ids, a filter, or all", what)
	}
	var n int
	switch {
	case r.Form.Get("dry_run") == "true":
		n, err = a.Letters.Count(r.Context(), f)
	case what == "replay":
		n, err = a.Letters.Replay(r.Context(), f)
	default:
		n, err = a.Letters.Delete(r.Context(), f)
	}
	if err != nil {
		return err
	}
	a.Log.InfoContext(r.Context(), "dead letters moved by hand", "what", what, "count", n, "dry_run", r.Form.Get("dry_run") == "true")
	write(w, http.StatusOK, map[string]int{"count": n})
	return nil
}
