package partner

import (
	"errors"

	"github.com/tidemill/tidemill/sink/httpsink"
)

// Response is what a partner answered to what it did not take: the status, and the first
// 2 KiB of the body with secrets blotted out. False: there was no answer.
func Response(err error) (status int, body []byte, ok bool) {
	r, ok := errors.AsType[*httpsink.Refusal](err)
	if !ok || r.Status == 0 {
		return 0, nil, false
	}
	return r.Status, r.Body, true
}

// Attempt is one request to a partner and what came of it.
type Attempt = httpsink.Attempt
