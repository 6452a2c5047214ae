package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Longest is how many bytes a line, or a JSON value, of a file may have.
const Longest = 1 << 20

var errLong = fmt.Errorf("it is longer than %d bytes", Longest)

// ReadEvents calls do with every JSON value of a file, byte for byte, and bad with what is
// none. Files have one value a line; or values that go over several lines, one after
// another or in arrays: which of them is seen at the first line.
func ReadEvents(in io.Reader, name string, do func(raw []byte, place string) error, bad func(place, why string)) error {
	r := bufio.NewReaderSize(in, Longest)
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		text := bytes.TrimSpace(line)
		place := fmt.Sprintf("%s, line %d", name, n)
		switch {
		case len(text) == 0 && errors.Is(err, io.EOF):
			return nil
		case len(text) == 0 && errors.Is(err, bufio.ErrBufferFull):
			n-- // of a long line of blanks
			continue
		case len(text) == 0 && err != nil:
			return fmt.Errorf("read %s: %w", place, err)
		case len(text) == 0:
			continue
		case goesOn(text):
			return readValues(io.MultiReader(bytes.NewReader(bytes.Clone(line)), r), name, do)
		}
		return readLines(r, n, line, err, name, place, do, bad)
	}
}

// goesOn says whether a text is an array, the beginning of something longer, or more than
// one value.
func goesOn(text []byte) bool {
	if text[0] == '[' {
		return true
	}
	_, err := decoder(bytes.NewReader(text)).ReadValue()
	return errors.Is(err, io.ErrUnexpectedEOF) || err == nil && !oneValue(text)
}

// oneValue says whether a text is one JSON value.
func oneValue(text []byte) bool {
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true))
}

func decoder(r io.Reader) *jsontext.Decoder {
	return jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true)) // that an event must not have any is for others to say
}

// readLines reads a value a line; the first is given.
func readLines(r *bufio.Reader, n int, line []byte, err error, name, place string, do func([]byte, string) error, bad func(string, string)) error {
	for {
		long := errors.Is(err, bufio.ErrBufferFull)
		text := bytes.TrimSpace(line)
		switch {
		case long:
			bad(place, errLong.Error())
		case len(text) == 0:
		case !oneValue(text):
			bad(place, "it is not JSON in UTF-8")
		default:
			if err := do(text, place); err != nil {
				return err
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of it
			_, err = r.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", place, err)
		}
		n++
		place = fmt.Sprintf("%s, line %d", name, n)
		line, err = r.ReadSlice('\n')
	}
}

// readValues reads values one after another, or in arrays. What is no JSON ends it: nobody
// knows where the next one begins.
func readValues(in io.Reader, name string, do func([]byte, string) error) error {
	r := &bounded{in: in, left: Longest}
	d := decoder(r)
	depth := 0
	for n := 1; ; n++ {
		place := fmt.Sprintf("%s, event %d", name, n)
		for {
			k := d.PeekKind()
			if k != '[' && k != ']' || k == '[' && depth == 1 {
				break
			}
			if _, err := d.ReadToken(); err != nil {
				return fmt.Errorf("%s: %w", place, err)
			}
			depth = d.StackDepth()
		}
		v, err := d.ReadValue()
		if errors.Is(err, io.EOF) && depth == 0 {
			return nil
		}
		if errors.Is(err, errLong) {
			return fmt.Errorf("%s: %w; what follows is not read", place, errLong)
		}
		if err != nil {
			return fmt.Errorf("%s: it is not JSON in UTF-8, and what follows is not read: %w", place, err)
		}
		if err := do(v, place); err != nil {
			return err
		}
		r.left = Longest
	}
}

// bounded reads so many bytes more, and then fails.
type bounded struct {
	in   io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLong
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
