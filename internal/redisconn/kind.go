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

// kinds of what Redis answers, by the first word. Everything else that it says is our own
// fault: a command or script that it does not take.
var kinds = map[string]tidemill.Kind{
	"WRONGPASS": tidemill.Credentials, "NOAUTH": tidemill.Credentials, "NOPERM": tidemill.Credentials,
	"OOM":      tidemill.RateLimit, // room comes back when somebody deletes
	"READONLY": tidemill.Transient, "LOADING": tidemill.Transient, "CLUSTERDOWN": tidemill.Transient,
	"TRYAGAIN": tidemill.Transient, "MASTERDOWN": tidemill.Transient, "MOVED": tidemill.Transient, "ASK": tidemill.Transient,
	"BUSY": tidemill.Transient, "NOREPLICAS": tidemill.Transient, "MISCONF": tidemill.Transient, "UNBLOCKED": tidemill.Transient,
	"NOGROUP": tidemill.Transient, "NOSCRIPT": tidemill.Transient, "UNKILLABLE": tidemill.Transient, "EXECABORT": tidemill.Transient,
	"WRONGTYPE": tidemill.Validation, // somebody else's value lies under the key: only a human can help
}

// Kind says of which kind an error of a client is: Credentials where Redis refuses us,
// RateLimit where it is out of memory, Timeout where no answer came, Internal where it
// does not take the command; else Transient. The end of a context is no kind; a missed
// deadline is Timeout. Backends that could do harm by repeating say Unknown themselves.
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

// Error gives an error of a client its kind and says what was being done. Nil stays nil,
// and what ended with its context has no kind.
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
