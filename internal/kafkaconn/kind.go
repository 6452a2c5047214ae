package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
)

// kinds of brokers' errors. All others are Transient.
var kinds = map[error]tidemill.Kind{
	kerr.SaslAuthenticationFailed:           tidemill.Credentials,
	kerr.UnsupportedSaslMechanism:           tidemill.Credentials,
	kerr.IllegalSaslState:                   tidemill.Credentials,
	kerr.TopicAuthorizationFailed:           tidemill.Credentials,
	kerr.GroupAuthorizationFailed:           tidemill.Credentials,
	kerr.ClusterAuthorizationFailed:         tidemill.Credentials,
	kerr.TransactionalIDAuthorizationFailed: tidemill.Credentials,

	kerr.MessageTooLarge:        tidemill.Validation,
	kerr.RecordListTooLarge:     tidemill.Validation,
	kerr.InvalidRecord:          tidemill.Validation,
	kerr.InvalidTimestamp:       tidemill.Validation,
	kerr.InvalidTopicException:  tidemill.Validation,
	kerr.OffsetMetadataTooLarge: tidemill.Internal,

	kerr.RequestTimedOut:              tidemill.Timeout,
	kerr.NotEnoughReplicasAfterAppend: tidemill.Timeout,
	kerr.ThrottlingQuotaExceeded:      tidemill.RateLimit,

	kgo.ErrRecordTimeout: tidemill.Timeout,
	kgo.ErrRecordRetries: tidemill.Timeout,
}

// Kind gives the kind of a client's error: Credentials if the brokers refuse us, Validation if
// they refuse the record for good, RateLimit if they ask for less, Timeout if no answer came;
// else Transient. The end of a context has no kind; a missed deadline is Timeout. Backends for
// which repeating could do harm say Unknown themselves.
func Kind(err error) tidemill.Kind {
	if err == nil || errors.Is(err, context.Canceled) {
		return tidemill.NoKind
	}
	if e, ok := errors.AsType[*tidemill.Error](err); ok {
		return e.Kind
	}
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		if k, ok := kinds[e]; ok {
			return k
		}
		return tidemill.Transient
	}
	for _, e := range []error{kgo.ErrRecordTimeout, kgo.ErrRecordRetries} {
		if errors.Is(err, e) {
			return kinds[e]
		}
	}
	if n, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || ok && n.Timeout() {
		return tidemill.Timeout
	}
	return tidemill.Transient
}

// Error gives a client's error its kind and says what was being done. Nil stays nil, and the
// end of a context gets no kind.
func Error(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
	if k := Kind(err); k != tidemill.NoKind {
		return &tidemill.Error{Kind: k, Err: err}
	}
	return err
}
