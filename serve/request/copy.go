package request

import (
	"io"
	"net/http"
	"time"
)

// Copy writes the request's body to another place as it is sent, at most limit bytes and
// within a time, for bodies that are too large for memory: it has 64 KiB of one at a time. A
// Problem is the sender's, an error is of writing.
func Copy(to io.Writer, w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) (int64, *Problem, error) {
	if r.ContentLength > limit {
		return 0, TooLarge("the body has %d bytes; at most %d are allowed", r.ContentLength, limit), nil
	}
	c := newClock(w, within)
	buf := make([]byte, 64<<10)
	for sent := int64(0); ; {
		n, err := r.Body.Read(buf)
		if sent+int64(n) > limit {
			return sent, TooLarge("the body has more than %d bytes", limit), nil
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return sent, nil, err
		}
		sent += int64(n)
		switch {
		case err == io.EOF:
			return sent, nil, nil
		case err != nil:
			return sent, c.ended(err), nil
		}
		c.read(n)
	}
}
