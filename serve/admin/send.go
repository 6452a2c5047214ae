package admin

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
)

const (
	sendBody  = 32 << 20 // bytes of one request: the CLI sends less
	sendLine  = 1 << 20  // bytes of one event
	sendBatch = 500      // events added together
)

// send takes native events, one JSON object a line, from somebody who may: no ingest key
// is needed. It answers when they are durable.
func (a *API) send(w http.ResponseWriter, r *http.Request) error {
	id, err := a.projectOf(r)
	if err != nil {
		return err
	}
	sum := Sent{Refused: []string{}}
	var batch [][]byte
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		got, err := a.Send(r.Context(), id, batch)
		if err != nil {
			return refused(http.StatusServiceUnavailable, "after %d events: %v", sum.Accepted, err)
		}
		sum.Accepted += got.Accepted
		sum.Refused = append(sum.Refused, got.Refused...)
		batch = batch[:0]
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
	if err := in.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return refused(http.StatusRequestEntityTooLarge, "after %d events: a line is longer than 1 MiB", sum.Accepted)
		}
		return refused(http.StatusBadRequest, "after %d events: %v", sum.Accepted, err)
	}
	if err := flush(); err != nil {
		return err
	}
	write(w, http.StatusOK, sum)
	return nil
}
