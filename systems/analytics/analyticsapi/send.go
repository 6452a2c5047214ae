package analyticsapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/tidemill/tidemill/serve/api/operation"
)

const (
	sendLine    = 1 << 20 // bytes of one event
	sendBatch   = 500     // events added together
	sendReasons = 100     // refusals that an answer gives the reason of; the others are counted
)

// add counts what became of some more.
func add(s *Sent, o Sent) {
	s.Accepted += o.Accepted
	s.Duplicates += o.Duplicates
	s.Refused += o.Refused
	s.Reasons = append(s.Reasons, o.Reasons[:min(len(o.Reasons), sendReasons-len(s.Reasons))]...)
}

// send takes native events, one JSON object a line, from somebody who may: no ingest key
// is needed. It answers when they are durable.
func (a *API) send(ctx context.Context, q *SentEvents) (sum Sent, err error) {
	id, err := a.ProjectOf(ctx, q.InProject)
	if err != nil {
		return sum, err
	}
	sum.Reasons = []string{}
	cut := func(status int, why string) error {
		p := operation.Refuse(status, "after %d accepted events: %s", sum.Accepted+sum.Duplicates, why)
		if status == http.StatusServiceUnavailable {
			p.After = 5
		}
		p.Done, err = json.Marshal(sum)
		return errors.Join(err, p)
	}
	var batch [][]byte
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		got, err := a.Send(ctx, id, batch)
		add(&sum, got)
		batch = batch[:0]
		if err != nil {
			return cut(http.StatusServiceUnavailable, err.Error())
		}
		return nil
	}
	in := bufio.NewScanner(q.Body)
	in.Buffer(make([]byte, 0, 64<<10), sendLine)
	for in.Scan() {
		line := bytes.TrimSpace(in.Bytes())
		if len(line) == 0 {
			continue
		}
		if batch = append(batch, bytes.Clone(line)); len(batch) == sendBatch {
			if err := flush(); err != nil {
				return sum, err
			}
		}
	}
	if large, ok := errors.AsType[*http.MaxBytesError](in.Err()); ok {
		return sum, cut(http.StatusRequestEntityTooLarge, fmt.Sprintf("a request has at most %d MiB; send the rest in others", large.Limit>>20))
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return sum, cut(http.StatusRequestEntityTooLarge, "a line is longer than 1 MiB")
	case err != nil:
		return sum, cut(http.StatusBadRequest, err.Error())
	}
	return sum, flush()
}
