package operation

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/tidemill/tidemill/serve/caller"
)

// Payload is the answer that is a payload alone, byte for byte, as a file.
type Payload struct {
	Name  string // of the file
	Tag   string // its ETag
	Bytes []byte
}

// PayloadType is the type of a Payload, and of what replaces it.
const PayloadType = "application/octet-stream"

// NewPayload is the payload that is to replace another. That it is empty has to be said: a body that somebody forgot
// to send would look the same.
type NewPayload struct {
	Empty bool   `query:"empty" kong:"-" help:"The new payload is empty, and so is the body. Without it a request without a body is refused: it may have been forgotten."`
	Body  []byte `body:"application/octet-stream" mib:"4" kong:"-" optional:""`
}

// Payload is the new payload; it is refused where it is not clear what that is.
func (n *NewPayload) Payload() ([]byte, error) {
	switch {
	case n.Empty && len(n.Body) > 0:
		return nil, Refuse(http.StatusBadRequest, "empty=true says that the new payload is empty, and the request has a body of %d bytes: leave one out", len(n.Body))
	case !n.Empty && len(n.Body) == 0:
		return nil, Refuse(http.StatusBadRequest, "the request has no body, and the payload is left as it is: send the new one as the body, as curl does with --data-binary @file, or say empty=true if it is to be empty")
	}
	return n.Body, nil
}

// PayloadOf is a payload of what an answer shows. It is refused where something of it is covered for the
// caller of the context: bytes say nothing of what is not in them.
func PayloadOf(ctx context.Context, answer InSystem, name, tag string, payload []byte) (Payload, error) {
	if Covers(ctx, answer, payload) {
		return Payload{}, Refuse(http.StatusForbidden, "this payload is covered for %s, in whole or in part: it needs the right to payloads, and console.cover to cover nothing of it. What is shown of it is in the answer that has the rest too", caller.From(ctx).Name)
	}
	return Payload{"payload-" + name + ".bin", tag, payload}, nil
}

// Version is the ETag.
func (p Payload) Version() string { return p.Tag }

// Document are the bytes.
func (p Payload) Document() *Document {
	return &Document{Type: PayloadType, File: p.Name, Write: func(w io.Writer) error { _, err := w.Write(p.Bytes); return err }}
}

// longestName is how many bytes the name of a file may have.
const longestName = 100

// AsFile has a browser keep an answer as a file, and show nothing of it. Of the name it leaves what needs no
// quotes anywhere.
func AsFile(h http.Header, name string) {
	clean := strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", r) {
			return r
		}
		return '_'
	}, name)
	if over := len(clean) - longestName; over > 0 { // its end says what it is
		end := max(strings.LastIndexByte(clean, '.'), 0)
		clean = (clean[:max(end-over, 0)] + clean[end:])[:longestName]
	}
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("Content-Disposition", `attachment; filename="`+clean+`"`)
}
