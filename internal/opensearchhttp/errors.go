package opensearchhttp

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

const (
	errorBytes = 64 << 10 // of an answer that is searched for an exception
	shownBytes = 600      // of a server's text in an error
)

// Refusal is an error answer of the server, or of a proxy before it. It is wrapped by a
// tidemill.Error of its kind.
type Refusal struct {
	Status int    // of the HTTP answer, or of one item of a bulk
	Type   string // of the exception: mapper_parsing_exception; empty: none given
	Reason string // in the server's words, at most 600 bytes
}

func (r *Refusal) Error() string {
	switch {
	case r.Type != "":
		return fmt.Sprintf("%d %s: %s", r.Status, r.Type, r.Reason)
	case r.Reason != "":
		return fmt.Sprintf("HTTP status %d: %s", r.Status, r.Reason)
	}
	return fmt.Sprintf("HTTP status %d %s", r.Status, http.StatusText(r.Status))
}

// Status is that of the answer within an error; 0: no answer.
func Status(err error) int {
	if e, ok := errors.AsType[*Refusal](err); ok {
		return e.Status
	}
	return 0
}

// Exception is how both servers describe a failure.
type Exception struct {
	Type     string     `json:"type"`
	Reason   string     `json:"reason"`
	CausedBy *Exception `json:"caused_by"`
}

// Refused makes the error of an exception: of a whole request or of one item of a bulk.
func (c *Conn) Refused(status int, e Exception) error {
	reason := e.Reason
	for cause, depth := e.CausedBy, 0; cause != nil && depth < 3; cause, depth = cause.CausedBy, depth+1 {
		if !strings.Contains(reason, cause.Reason) {
			reason += ": " + cause.Reason
		}
	}
	return &tidemill.Error{Kind: kind(status, e.Type, reason), Err: &Refusal{Status: status, Type: e.Type, Reason: c.shown(reason)}}
}

// refusal makes the error of an answer that is not in the 200s.
func (c *Conn) refusal(resp *http.Response, body []byte) error {
	var said struct {
		Error jsontext.Value `json:"error"`
	}
	var e Exception
	if json.Unmarshal(body, &said) != nil || len(said.Error) == 0 {
		e.Reason = string(body) // a proxy's
	} else if json.Unmarshal(said.Error, &e) != nil {
		_ = json.Unmarshal(said.Error, &e.Reason) // some are only a text
	}
	err := c.Refused(resp.StatusCode, e)
	if known, ok := errors.AsType[*tidemill.Error](err); ok {
		known.After = retryAfter(resp.Header)
	}
	return err
}

// waits are exceptions that no message causes, whatever their status: a cluster that is full or
// locked, a closed index. They do not count as tries: writers wait until an operator has fixed
// it.
var waits = []string{"cluster_block_exception", "index_closed_exception"}

// kind says what an exception means. The data is at fault only if the status is 400 for reasons
// of its own, or if it is too large.
func kind(status int, exception, reason string) tidemill.Kind {
	for _, w := range waits {
		if exception == w {
			return tidemill.RateLimit
		}
	}
	switch {
	case exception == "security_exception", status == http.StatusUnauthorized, status == http.StatusForbidden:
		return tidemill.Credentials
	case status == http.StatusTooManyRequests:
		return tidemill.RateLimit
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return tidemill.Timeout
	case status == http.StatusRequestEntityTooLarge:
		return tidemill.Validation
	case exception == "validation_exception" && strings.Contains(reason, "shards"):
		return tidemill.RateLimit // no room for another daily index: cluster.max_shards_per_node
	case exception == "illegal_argument_exception" && (strings.Contains(reason, "alias") || strings.Contains(reason, "data stream")):
		return tidemill.Transient // the index has a wrong form
	case status == http.StatusBadRequest && exception != "":
		return tidemill.Validation
	}
	return tidemill.Transient // 404, 405, 5xx, redirects: an operator will fix it
}

// shown shortens a server's text, and removes secrets from it.
func (c *Conn) shown(text string) string {
	if p := c.password.Reveal(); p != "" { // as it is, and as it is sent
		text = strings.NewReplacer(base64.StdEncoding.EncodeToString([]byte(c.user+":"+p)), "[secret]", p, "[secret]").Replace(text)
	}
	if k := c.key.Reveal(); k != "" {
		text = strings.ReplaceAll(text, k, "[secret]")
	}
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\ufffd"))
	if len(text) > shownBytes {
		end := shownBytes
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "…"
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
	if errors.Is(context.Cause(request), errTimeout) {
		err = errTimeout
	}
	kind := tidemill.Transient
	if t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && t.Timeout() {
		kind = tidemill.Timeout
	}
	return tidemill.Fail(kind, "ask the search server at %s: %w", c.url.Host, unwrapURL(err))
}

// unwrapURL removes what net/http adds: the whole URL.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
