package apitest

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// Example is what a test sent for an operation, and the answer that it got, as JSON: of what is no JSON
// the text, and of YAML what it says.
type Example struct {
	Body   json.RawMessage `json:"body,omitempty"` // nil: it has none
	Answer json.RawMessage `json:"answer"`
}

// Examples are those of operations, by their ids.
type Examples map[string]Example

// ReadExamples reads what Bytes wrote.
func ReadExamples(t testing.TB, file string) (e Examples) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Bytes are the examples as a file that people read.
func (e Examples) Bytes(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(e); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The parts of an operation that have an example.
const (
	ofBody   = "body"
	ofAnswer = "answer"
)

// example is what stands for an example in the document until it is written.
func example(o *operation.Description, part string) string {
	return "example of the " + part + " of " + o.ID
}

// exemplify gives the content of an answer or of a request its example: the object, and not each form of
// it.
func (d *describer) exemplify(o *operation.Description, part string, content object) object {
	if _, ok := d.examples[o.ID]; !ok || part == ofBody && d.examples[o.ID].Body == nil {
		return content
	}
	for _, kind := range []string{"application/json", "application/merge-patch+json", operation.PayloadType, operation.LinesType, operation.EventsType, "application/yaml"} {
		if of, ok := content[kind].(object); ok {
			of["example"] = example(o, part)
			return content
		}
	}
	d.t.Errorf("the %s of %s has an example, and no form that is known to have one", part, o.ID)
	return content
}

// filled is the document with its examples, each on a line: in many lines they would be twice as long.
func (d *describer) filled(doc []byte, all []operation.Handler) []byte {
	for _, h := range all {
		e := d.examples[h.ID]
		for part, text := range map[string]json.RawMessage{ofBody: e.Body, ofAnswer: e.Answer} {
			var short bytes.Buffer
			if text == nil {
				continue
			}
			if err := json.Compact(&short, text); err != nil {
				d.t.Fatal(err)
			}
			doc = bytes.Replace(doc, []byte(`"`+example(h.Description, part)+`"`), short.Bytes(), 1)
		}
	}
	return doc
}

// Shortened is a JSON value, each list in it cut to so many elements.
func Shortened(t testing.TB, value []byte, most int) []byte {
	t.Helper()
	in := json.NewDecoder(bytes.NewReader(value))
	in.UseNumber()
	var out bytes.Buffer
	shorten(t, in, &out, most)
	return out.Bytes()
}

// shorten copies the next value, with the members of objects in their order.
func shorten(t testing.TB, in *json.Decoder, out *bytes.Buffer, most int) {
	token, err := in.Token()
	if err != nil {
		t.Fatal(err)
	}
	opens, ok := token.(json.Delim)
	if !ok {
		write(t, out, token)
		return
	}
	out.WriteByte(byte(opens))
	for n := 0; in.More(); n++ {
		to := out
		if opens == '[' && n >= most {
			to = new(bytes.Buffer) // which nobody reads
		}
		if n > 0 {
			to.WriteByte(',')
		}
		if opens == '{' {
			shorten(t, in, to, most)
			to.WriteByte(':')
		}
		shorten(t, in, to, most)
	}
	closes, err := in.Token()
	if err != nil {
		t.Fatal(err)
	}
	out.WriteByte(byte(closes.(json.Delim)))
}

// write writes a value that has no others in it.
func write(t testing.TB, out *bytes.Buffer, v any) {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	out.Truncate(out.Len() - 1) // the end of the line
}

// Without are the operations that have no example, of all that there are.
func (e Examples) Without(all []operation.Handler) (ids []string) {
	for _, h := range all {
		if of, ok := e[h.ID]; !ok || of.Body == nil && h.Body() != nil {
			ids = append(ids, h.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
