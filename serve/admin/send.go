package admin

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
)

const (
	sendBody    = 32 << 20 // bytes of one request: the CLI sends less
	sendLine    = 1 << 20  // bytes of one event
	sendBatch   = 500      // events added together
	sendReasons = 100      // refusals that an answer gives the reason of; the others are counted
)

// Sent is what became of events given to Parts.Send, and what the answer to POST events
// says, also next to an error: what was accepted before it stays so.
type Sent struct {
	Accepted   int      `json:"accepted"`   // durable now, and new
	Duplicates int      `json:"duplicates"` // accepted before, under the same event_id
	Refused    int      `json:"refused"`    // not taken: they are wrong
	Reasons    []string `json:"reasons"`    // why, of the first of them
}

func (s *Sent) add(o Sent) {
	s.Accepted += o.Accepted
	s.Duplicates += o.Duplicates
	s.Refused += o.Refused
	s.Reasons = append(s.Reasons, o.Reasons[:min(len(o.Reasons), sendReasons-len(s.Reasons))]...)
}

// send takes native events, one JSON object a line, from somebody who may: no ingest key
// is needed. It answers when they are durable.
func (a *API) send(w http.ResponseWriter, r *http.Request) error {
	id, err := a.projectOf(r)
	if err != nil {
		return err
	}
	sum := Sent{Reasons: []string{}}
	cut := func(status int, why string) error {
		return &refusal{status: status, text: fmt.Sprintf("after %d accepted events: %s", sum.Accepted+sum.Duplicates, why), sent: &sum}
	}
	var batch [][]byte
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		got, err := a.Send(r.Context(), id, batch)
		sum.add(got)
		batch = batch[:0]
		if err != nil {
			w.Header().Set("Retry-After", "5")
			return cut(http.StatusServiceUnavailable, err.Error())
		}
		return nil
	}
	in := bufio.NewScanner(http.MaxBytesReader(w, r.Body, sendBody))
	in.Buffer(make([]byte, 0, 64<<10), sendLine)
	for in.Scan() {
		line := bytes.TrimSpace(in.Bytes())
		if len(line) == 0 {
			continue
		}
		if batch = append(batch, bytes.Clone(line)); len(batch) == sendBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](in.Err()); tooLarge {
		return cut(http.StatusRequestEntityTooLarge, "a request has at most 32 MiB; send the rest in others")
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return cut(http.StatusRequestEntityTooLarge, "a line is longer than 1 MiB")
	case err != nil:
		return cut(http.StatusBadRequest, err.Error())
	}
	if err := flush(); err != nil {
		return err
	}
	write(w, http.StatusOK, sum)
	return nil
}
