package postgresdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemill/tidemill"
)

// Kind is the kind of an error of PostgreSQL, or of the connection to it; NoKind for other
// errors, such as the end of a context.
//
// A lost answer, even to a COMMIT, is transient and never unknown: all statements of the
// backends may be repeated.
func Kind(err error) tidemill.Kind {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if e.Code == "0A000" && e.Routine == "RevalidateCachedQuery" {
			return tidemill.Transient // a table has new columns: the driver has forgotten the statement by now
		}
		return ofState(e.Code)
	}
	switch _, failed := errors.AsType[*pgconn.ConnectError](err); {
	case err == nil || errors.Is(err, context.Canceled):
		return tidemill.NoKind
	case errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err):
		return tidemill.Timeout
	case failed, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, pgconn.ErrConnClosed),
		errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgx.ErrTxClosed), errors.Is(err, net.ErrClosed):
		return tidemill.Transient
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return tidemill.Transient
	}
	return tidemill.NoKind
}

// ofState finds the kind of an SQLSTATE: the exact one, else its class. All others are expected
// to pass.
func ofState(code string) tidemill.Kind {
	switch code {
	case "57014": // ended by statement_timeout
		return tidemill.Timeout
	case "42501", "3D000": // no right to the table, no such database
		return tidemill.Credentials
	case "42P01", "42703": // a table or column is missing: an operator restores, or migrates back
		return tidemill.Transient
	case "23503": // refers to a project that was just deleted
		return tidemill.NotFound
	case "23505", "23P01": // only after a lost race
		return tidemill.Transient
	}
	if len(code) != 5 {
		return tidemill.Transient
	}
	switch code[:2] {
	case "28":
		return tidemill.Credentials
	case "22", "23", "54": // values and limits: a repetition would fail again
		return tidemill.Validation
	case "0A", "42": // statements that this server does not understand
		return tidemill.Internal
	case "XX": // damaged data
		return tidemill.Internal
	}
	return tidemill.Transient // 08, 25, 26, 40, 53, 55, 57, 58 and unknown ones
}

// said gives an error its kind. Of a failed connection it keeps only the reason, without the
// password: the driver's error holds it, and a server's message may repeat it.
func said(err error) error {
	if _, ok := errors.AsType[*tidemill.Error](err); ok {
		return err
	}
	kind := Kind(err)
	if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		reason := e.Unwrap()
		if text := reason.Error(); e.Config.Password != "" && strings.Contains(text, e.Config.Password) {
			reason = errors.New(strings.ReplaceAll(text, e.Config.Password, tidemill.Secret{}.String()))
		}
		err = fmt.Errorf("connect as user %q to database %q: %w", e.Config.User, e.Config.Database, reason)
	}
	if kind == tidemill.NoKind {
		return err
	}
	return &tidemill.Error{Kind: kind, Err: err}
}
