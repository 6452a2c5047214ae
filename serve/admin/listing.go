package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// lines streams a listing, one JSON object a line. Once it has begun, an error can only be
// its last line, {"error": "…"}, after which the answer is cut off.
type lines struct {
	w    http.ResponseWriter
	n    int
	enc  *json.Encoder
	head bool                     // nobody wants the lines
	now  *http.ResponseController // each line goes at once; nil: as it comes
}

// errEnough ends a listing whose lines nobody wants.
var errEnough = errors.New("no more lines are wanted")

func stream(w http.ResponseWriter, r *http.Request) *lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	return &lines{w: w, enc: json.NewEncoder(w), head: r.Method == http.MethodHead}
}

func (l *lines) raw(b []byte) error {
	if l.head {
		return errEnough
	}
	l.n++
	_, err := l.w.Write(append(b, '\n'))
	if err == nil && l.now != nil {
		err = l.now.Flush()
	}
	return err
}

func (l *lines) add(v any) error {
	if l.head {
		return errEnough
	}
	l.n++
	return l.enc.Encode(v)
}

// live makes each line go out at once, for as long as there are some.
func (l *lines) live() {
	l.now = http.NewResponseController(l.w)
	_ = l.now.SetReadDeadline(time.Time{}) // in this very process there is none
	_ = l.now.SetWriteDeadline(time.Time{})
}

// end is how a listing ends: with nil, or with an error of it.
func (l *lines) end(err error) error {
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil || l.n == 0:
		return err
	}
	_ = l.enc.Encode(map[string]string{"error": err.Error()})
	_ = http.NewResponseController(l.w).Flush()
	panic(http.ErrAbortHandler) // the client must not take it for the whole
}
