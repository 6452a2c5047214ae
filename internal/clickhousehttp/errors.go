package clickhousehttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
)

const (
	codeHeader = "X-Clickhouse-Exception-Code"
	errorBytes = 64 << 10 // of an answer that is searched for an exception
	shownBytes = 1000     // of an exception in an error's text
)

// Exception is what the server threw. It is wrapped by a tidemill.Error of its kind.
type Exception struct {
	Code   int    // ClickHouse's number; 0: none, the answer comes from a proxy
	Status int    // of the HTTP answer
	Text   string // at most 1,000 bytes
}

func (e *Exception) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("HTTP status %d: %s", e.Status, e.Text)
	}
	return e.Text
}

// Code is the number of the server's exception within an error; 0: none.
func Code(err error) int {
	if e, ok := errors.AsType[*Exception](err); ok {
		return e.Code
	}
	return 0
}

// codes says what an exception means for the engine. All others are transient: an operator will
// fix a missing table, column or right to a database, a full disk or a fault of the server, and
// events must not become dead letters meanwhile. For the same reason a statement refused as a
// whole (62 syntax, 53 types of columns) and a body that ended early (33) are not validation:
// only what a value can cause is.
var codes = map[int]tidemill.Kind{
	192: tidemill.Credentials, // UNKNOWN_USER
	193: tidemill.Credentials, // WRONG_PASSWORD
	194: tidemill.Credentials, // REQUIRED_PASSWORD
	195: tidemill.Credentials, // IP_ADDRESS_NOT_ALLOWED
	291: tidemill.Credentials, // DATABASE_ACCESS_DENIED
	497: tidemill.Credentials, // ACCESS_DENIED
	516: tidemill.Credentials, // AUTHENTICATION_FAILED

	201: tidemill.RateLimit, // QUOTA_EXCEEDED
	202: tidemill.RateLimit, // TOO_MANY_SIMULTANEOUS_QUERIES
	252: tidemill.RateLimit, // TOO_MANY_PARTS: merges are behind

	159: tidemill.Timeout, // TIMEOUT_EXCEEDED
	209: tidemill.Timeout, // SOCKET_TIMEOUT

	6:   tidemill.Validation, // CANNOT_PARSE_TEXT
	25:  tidemill.Validation, // CANNOT_PARSE_ESCAPE_SEQUENCE
	26:  tidemill.Validation, // CANNOT_PARSE_QUOTED_STRING
	27:  tidemill.Validation, // CANNOT_PARSE_INPUT_ASSERTION_FAILED
	38:  tidemill.Validation, // CANNOT_PARSE_DATE
	41:  tidemill.Validation, // CANNOT_PARSE_DATETIME
	69:  tidemill.Validation, // ARGUMENT_OUT_OF_BOUND
	70:  tidemill.Validation, // CANNOT_CONVERT_TYPE
	72:  tidemill.Validation, // CANNOT_PARSE_NUMBER
	117: tidemill.Validation, // INCORRECT_DATA
	131: tidemill.Validation, // TOO_LARGE_STRING_SIZE
	153: tidemill.Validation, // ILLEGAL_DIVISION, in a materialized view
	321: tidemill.Validation, // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
	349: tidemill.Validation, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
	376: tidemill.Validation, // CANNOT_PARSE_UUID
	395: tidemill.Validation, // FUNCTION_THROW_IF_VALUE_IS_NON_ZERO
	407: tidemill.Validation, // DECIMAL_OVERFLOW
	469: tidemill.Validation, // VIOLATED_CONSTRAINT
	691: tidemill.Validation, // UNKNOWN_ELEMENT_OF_ENUM
}

// statuses are for answers without an exception's code: a proxy's.
var statuses = map[int]tidemill.Kind{
	http.StatusUnauthorized:          tidemill.Credentials,
	http.StatusForbidden:             tidemill.Credentials,
	http.StatusRequestTimeout:        tidemill.Timeout,
	http.StatusGatewayTimeout:        tidemill.Timeout,
	http.StatusTooManyRequests:       tidemill.RateLimit,
	http.StatusRequestEntityTooLarge: tidemill.Validation, // half the batch may pass
}

// refusal makes the error of an answer whose status is not 200 or that is an exception.
func (c *Conn) refusal(resp *http.Response, text string) error {
	e := &Exception{Status: resp.StatusCode, Text: c.shown(text)}
	e.Code, _ = strconv.Atoi(resp.Header.Get(codeHeader))
	if m := thrown.FindStringSubmatch(text); e.Code == 0 && m != nil {
		e.Code, _ = strconv.Atoi(m[1])
	}
	if e.Text == "" {
		e.Text = http.StatusText(resp.StatusCode)
	}
	kind, ok := codes[e.Code]
	if !ok {
		kind = tidemill.Transient
		if of, ok := statuses[resp.StatusCode]; ok && e.Code == 0 {
			kind = of
		}
	}
	return &tidemill.Error{Kind: kind, After: retryAfter(resp.Header), Err: e}
}

// thrown is the form of an exception in an answer.
var thrown = regexp.MustCompile(`Code: (\d+)\. DB::(?:\w+)?Exception`)

// exception finds one in the text of an answer that began as 200; nil: none.
func (c *Conn) exception(text []byte) error {
	at := thrown.FindSubmatchIndex(text)
	if at == nil {
		return nil
	}
	e := &Exception{Status: http.StatusOK, Text: c.shown(string(text[at[0]:]))}
	e.Code, _ = strconv.Atoi(string(text[at[2]:at[3]]))
	kind, ok := codes[e.Code]
	if !ok {
		kind = tidemill.Transient
	}
	return &tidemill.Error{Kind: kind, Err: e}
}

// shown shortens a server's text, and removes the password from it.
func (c *Conn) shown(text string) string {
	if p := c.password.Reveal(); p != "" {
		text = strings.ReplaceAll(text, p, "[secret]")
	}
	text = strings.TrimSpace(text)
	if len(text) > shownBytes {
		text = text[:shownBytes]
		for len(text) > 0 && !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) && len(text) > shownBytes-utf8.UTFMax {
			text = text[:len(text)-1]
		}
		text += "…"
	}
	return text
}

// lost makes the error of a request without a complete answer. The end of the caller's context
// is reported as such. Any other request may have been done, and all requests here may be
// repeated, so the error is transient or a timeout.
func (c *Conn) lost(request, caller context.Context, err error) error {
	if caller.Err() != nil {
		return caller.Err()
	}
	if context.Cause(request) == errTimeout {
		err = errTimeout
	}
	kind := tidemill.Transient
	if t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && t.Timeout() {
		kind = tidemill.Timeout
	}
	return tidemill.Fail(kind, "ask ClickHouse at %s: %w", c.url.Host, unwrapURL(err))
}

// unwrapURL removes what net/http adds: the whole URL with statement and parameters.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
