package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// kinds of Redis's errors, by the first word. All others are our own fault: a command or script
// that it does not accept.
var kinds = map[string]tidemill.Kind{
	"WRONGPASS": tidemill.Credentials, "NOAUTH": tidemill.Credentials, "NOPERM": tidemill.Credentials,
	"OOM":      tidemill.RateLimit, // deletions make room
	"READONLY": tidemill.Transient, "LOADING": tidemill.Transient, "CLUSTERDOWN": tidemill.Transient,
	"TRYAGAIN": tidemill.Transient, "MASTERDOWN": tidemill.Transient, "MOVED": tidemill.Transient, "ASK": tidemill.Transient,
	"BUSY": tidemill.Transient, "NOREPLICAS": tidemill.Transient, "MISCONF": tidemill.Transient, "UNBLOCKED": tidemill.Transient,
	"NOGROUP": tidemill.Transient, "NOSCRIPT": tidemill.Transient, "UNKILLABLE": tidemill.Transient, "EXECABORT": tidemill.Transient,
	"WRONGTYPE": tidemill.Validation, // the key has a value of another program: only an operator can help
}

// Kind gives the kind of a client's error: Credentials if Redis refuses us, RateLimit if it is
// out of memory, Timeout if no answer came, Internal if it does not accept the command; else
// Transient. The end of a context has no kind; a missed deadline is Timeout. Backends for which
// repeating could do harm say Unknown themselves.
func Kind(err error) tidemill.Kind {
	if err == nil || errors.Is(err, context.Canceled) {
		return tidemill.NoKind
	}
	if e, ok := errors.AsType[*tidemill.Error](err); ok {
		return e.Kind
	}
	if e, ok := errors.AsType[*rueidis.RedisError](err); ok && !e.IsNil() {
		word, rest, _ := strings.Cut(e.Error(), " ")
		if k, ok := kinds[word]; ok {
			return k
		}
		switch {
		case strings.Contains(rest, "invalid password"), strings.Contains(rest, "without any password"), strings.Contains(rest, "invalid username-password"):
			return tidemill.Credentials
		case strings.Contains(rest, "max number of clients"), strings.Contains(rest, "max memory"):
			return tidemill.Transient
		}
		return tidemill.Internal
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
	switch e, ok := errors.AsType[*rueidis.RedisError](err); {
	case ok && strings.HasPrefix(e.Error(), "OOM"):
		err = fmt.Errorf("out of memory, raise maxmemory of Redis or let it drain: %w", err)
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("%w (%w)", errNoAnswer, err)
	}
	err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
	if k := Kind(err); k != tidemill.NoKind {
		return &tidemill.Error{Kind: k, Err: err}
	}
	return err
}
