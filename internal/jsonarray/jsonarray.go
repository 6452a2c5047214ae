// Package jsonarray walks through a JSON array and returns its elements byte for byte. Use it
// where several events or records come in one body.
package jsonarray

import (
	"bytes"
	"errors"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
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
