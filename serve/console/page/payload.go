package page

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// mostShown is how many bytes of a payload a page shows. Larger ones can be downloaded.
const mostShown = 64 << 10

// Payload is one as a page shows it. JSON is set in lines; order, digits and repeated names stay.
type Payload struct {
	Form string // JSON, text or bytes
	Text string // empty: it is too large to be shown, or empty
	Size int
	At   string // where it can be downloaded; empty: nowhere

	Covered bool // something of it is covered here, so that there is no file of it
}

// Covering says whether something of it is covered for who looks at it.
func (p *Payload) Covering(covered bool) *Payload {
	if p.Covered = covered; covered {
		p.At = ""
	}
	return p
}

func BytesOf(text, base string) []byte {
	if base == "" {
		return []byte(text)
	}
	b, _ := base64.StdEncoding.DecodeString(base) // the API made it
	return b
}

func NewPayload(text, base, at string) *Payload {
	b := BytesOf(text, base)
	p := &Payload{Size: len(b), At: at}
	switch {
	case json.Valid(b):
		p.Form = "JSON"
	case utf8.Valid(b):
		p.Form = "text"
	default:
		p.Form = "bytes"
	}
	if len(b) <= mostShown {
		p.Text = readable(b)
	}
	return p
}

// readable is a payload for people.
func readable(b []byte) string {
	var out bytes.Buffer
	switch {
	case json.Valid(b):
		_ = json.Indent(&out, b, "", "  ") // it is valid
		return out.String()
	case utf8.Valid(b):
		return string(b)
	}
	return hex.Dump(b)
}

// Changed is a line of a difference.
type Changed struct{ Sign, Text string }

// Difference is that between two payloads, line by line; nil: they are too large to compare.
func Difference(from, to []byte) (all []Changed) {
	if len(from) > mostShown || len(to) > mostShown {
		return nil
	}
	text := diff.Diff("original", lined(from), "edited", lined(to))
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if i < 3 || line == "" { // the names of the two
			continue
		}
		sign := line[:1]
		if sign == "@" {
			all = append(all, Changed{"…", ""})
			continue
		}
		all = append(all, Changed{strings.TrimSpace(sign), line[1:]})
	}
	return all
}

func lined(b []byte) []byte { return []byte(strings.TrimSuffix(readable(b), "\n") + "\n") }

// Download answers with a payload, as a file that is called so.
func Download[Q any](v *Visit, name string, o operation.Operation[Q, operation.Payload], q *Q) error {
	ctx, cancel := v.Context()
	defer cancel()
	in, err := o.Body(ctx, v.API, q)
	if err != nil {
		return err
	}
	defer in.Close()
	v.asFile("payload-" + name + ".bin")
	if _, err = io.Copy(v.W, in); err != nil {
		panic(http.ErrAbortHandler) // the browser is gone, or must not take a part for the whole
	}
	return nil
}

// asFile has the browser keep the answer as a file, and show nothing of it.
func (v *Visit) asFile(name string) {
	v.W.Header().Set("Content-Type", operation.PayloadType)
	operation.AsFile(v.W.Header(), name)
}

// Editing is a payload in a form. A form keeps text alone, and writes the ends of lines in its own
// way: what has others can be replaced by a file.
type Editing struct {
	ETag string
	Text string
	Why  string // why it cannot be edited here; empty: it can
	JSON bool   // what is there is JSON
	Void bool   // it may be empty, if that is said
	Now  string // what is there now, where somebody else was first
}

// NewEditing is that of a payload as it is shown, or of an event that replaces nothing and has no ETag: where it is covered, the form has nothing of it, as
// saving would write what stands there for what is covered.
func NewEditing(v *Visit, etag, text, base string, covered bool) *Editing {
	e := &Editing{ETag: etag, Text: text, JSON: base == "" && json.Valid([]byte(text)), Void: etag != ""}
	switch {
	case covered:
		e.Why = "Parts of it are covered here, and would be lost."
	case base != "" || strings.ContainsRune(text, 0):
		e.Why = "It is not text."
	case strings.ContainsRune(text, '\r'):
		e.Why = "It has ends of lines that a form would change."
	case len(text) > mostShown:
		e.Why = "It is larger than 64 KB."
	}
	if form := v.R.PostForm; form != nil { // what was given, with what is wrong with it
		if v.Overtaken() {
			e.Now = cmp.Or(text, "nothing")
		} else {
			e.ETag = form.Get("etag")
		}
		e.Text = form.Get("payload")
	}
	if covered {
		e.Text, e.Now, e.JSON = "", "", false
	}
	return e
}

// Edited is what a form of an event or a payload has, which is not empty: a file, else the text.
func (v *Visit) Edited() ([]byte, error) {
	b, err := v.edited()
	if err == nil && len(b) == 0 {
		return nil, &Wrong{Text: "The payload is empty. Nothing was changed."}
	}
	return b, err
}

// Replaced is the payload that a form has instead of another. That it is empty has to be said.
func (v *Visit) Replaced() (p operation.NewPayload, err error) {
	p.Empty = v.R.PostFormValue("empty") == "true"
	if p.Body, err = v.edited(); err != nil || (len(p.Body) == 0) == p.Empty {
		return p, err
	}
	if p.Empty {
		return p, &Wrong{Text: "There is a new payload, and “It is empty on purpose” is on. Nothing was changed."}
	}
	return p, &Wrong{Text: "The payload is empty. Nothing was changed. Send it again with “It is empty on purpose” on if that is meant."}
}

func (v *Visit) edited() ([]byte, error) {
	if f, _, err := v.R.FormFile("file"); err == nil {
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, largestForm))
		if err != nil || len(b) > 0 {
			return b, err
		}
	}
	text := strings.ReplaceAll(v.R.PostForm.Get("payload"), "\r\n", "\n")
	if text == "" {
		return nil, nil
	}
	if v.R.PostFormValue("json") == "true" && !json.Valid([]byte(text)) {
		var any json.RawMessage
		return nil, &Wrong{Text: "It was JSON and no longer is: " + json.Unmarshal([]byte(text), &any).Error() + ". Nothing was changed. Send it again with “Keep it as JSON” off if that is meant."}
	}
	return []byte(text), nil
}
