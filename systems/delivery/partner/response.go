package partner

import (
	"errors"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/sink/httpsink"
)

// Response is the partner's answer to messages that it did not accept: the status, and the
// first 2 KiB of the body with secrets blotted out. False: there was no answer.
func Response(err error) (status int, body []byte, ok bool) {
	r, ok := errors.AsType[*httpsink.Refusal](err)
	if !ok || r.Status == 0 {
		return 0, nil, false
	}
	return r.Status, r.Body, true
}

// Repeatable turns the failure of a message whose answer was lost (kind unknown) into one that
// may be sent again: timeout where no answer came in time, else partner_error. Other errors
// stay as they are.
func Repeatable(err error) error {
	e, ok := errors.AsType[*tidemill.Error](err)
	if !ok || e.Kind != tidemill.Unknown {
		return err
	}
	again := *e
	again.Kind = tidemill.Partner
	if r, ok := errors.AsType[*httpsink.Refusal](err); ok && r.Late {
		again.Kind = tidemill.Timeout
	}
	return &again
}

// Attempt is one request to a partner and what came of it.
type Attempt = httpsink.Attempt

// Request is one as it would be sent, to be looked at.
type Request = httpsink.Shown
