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
