// Package jsonarray walks through a JSON array and returns its elements byte for byte. Use it
// where several events or records come in one body.
package jsonarray

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

// ErrBehind says that the body goes on behind the array.
var ErrBehind = errors.New("there is something behind the array")

// Elements yields the elements of body, which begins with an array. They are parts of body. It
// does not check for duplicate names; o sets the decoder's other options. An error ends it:
// then nothing of the body can be trusted. It is the decoder's, or ErrBehind.
func Elements(body []byte, o ...jsontext.Options) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		d := jsontext.NewDecoder(bytes.NewBuffer(body), append(o, jsontext.AllowDuplicateNames(true))...)
		if _, err := d.ReadToken(); err != nil {
			yield(nil, err)
			return
		}
		for d.PeekKind() != ']' {
			v, err := d.ReadValue()
			if err != nil {
				yield(nil, err)
				return
			}
			end := int(d.InputOffset())
			if !yield(body[end-len(v):end:end], nil) {
				return
			}
		}
		if _, err := d.ReadToken(); err != nil {
			yield(nil, err)
			return
		}
		if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
			yield(nil, ErrBehind)
		}
	}
}

// TooMany is why a body is not split: it has more events than this number.
type TooMany int

func (n TooMany) Error() string {
	return fmt.Sprintf("the body has more than %d events: send them in several requests", int(n))
}

// Split finds the events in a body: one value, or an array of 1 to most values, each with its
// bytes as received. array says which. An error is of kind validation: nothing of the body can
// be trusted.
func Split(body []byte, most int) (events [][]byte, array bool, err error) {
	bad := func(err error) ([][]byte, bool, error) {
		return nil, array, tidemill.Fail(tidemill.Validation, "the body is neither an event nor an array of them: %s", Reason(err))
	}
	if array = jsontext.NewDecoder(bytes.NewBuffer(body)).PeekKind() == '['; !array {
		return [][]byte{body}, false, nil // its decoder says what is wrong with it
	}
	for e, err := range Elements(body) {
		if err != nil {
			return bad(err)
		}
		if len(events) == most {
			return nil, true, tidemill.Fail(tidemill.Validation, "%w", TooMany(most))
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return bad(errors.New("the array is empty"))
	}
	return events, true, nil
}

// Reason is the message of a syntax error, without the library's name and without quoting data.
func Reason(err error) string {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return "a name comes twice in one object"
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return e.Err.Error() + " near byte " + strconv.FormatInt(e.ByteOffset+1, 10)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}
