package redissource

import (
	"context"

	"github.com/tidemill/tidemill"
)

// Check says whether the key can be a stream: an error of kind validation names what it
// holds instead. Any other error is Redis's own. A missing key is fine: the group makes it.
func (s *Source) Check(ctx context.Context) error {
	is, err := s.client.Do(ctx, s.client.B().Type().Key(s.keys.stream).Build()).ToString()
	if err != nil {
		return s.fail(err, "look at the key of")
	}
	if is != "none" && is != "stream" {
		return tidemill.Fail(tidemill.Validation, "the key %q holds a %s, not a stream", s.keys.stream, is)
	}
	return nil
}
