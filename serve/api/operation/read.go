package operation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/nearest"
)

// read makes a request of what came. Somebody who writes a parameter wrong would be shown more than was
// meant, or change more: it is refused.
func (d *Description) read(w http.ResponseWriter, r *http.Request, into reflect.Value) error {
	given, err := d.given(w, r)
	if err != nil {
		return err
	}
	names := d.names()
	if name, is := Unknown(given, names); is {
		return NoParameter(name, names)
	}
	for i := range d.Params {
		p := &d.Params[i]
		f := into.FieldByIndex(p.Field.Index)
		switch p.In {
		case InPath:
			f.SetString(r.PathValue(p.Name))
		case InQuery:
			switch texts := given[p.Name]; {
			case len(texts) > 1 && f.Kind() != reflect.Slice:
				err = Refuse(http.StatusBadRequest, "%s is given %d times: want it once", p.Name, len(texts))
			case len(texts) > 0:
				err = p.set(f, texts)
			}
		case InBody:
			err = p.readBody(w, r, f)
		case InHeader:
			err = d.readTag(r.Header.Values(p.Name), f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// NoParameter refuses a parameter that there is not.
func NoParameter(name string, names []string) *Problem {
	p := Refuse(http.StatusBadRequest, "%.120q is no parameter: %s", name, meant(name, names))
	p.Errors = []Mistake{{Parameter: name, Detail: p.Detail}}
	return p
}

// Unknown is the first parameter of a query, by name, that is none of these; false: there is none.
func Unknown(given url.Values, names ...[]string) (name string, is bool) {
	known := slices.Concat(names...)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			return name, true
		}
	}
	return "", false
}

// Parse reads those parameters of a query that the operation has into its request, as they are read
// from one that comes over HTTP. It leaves the others alone, and those that are empty.
func (d *Description) Parse(given url.Values, q any) error {
	into := reflect.ValueOf(q).Elem()
	for i := range d.Params {
		p := &d.Params[i]
		texts := slices.DeleteFunc(slices.Clone(given[p.Name]), func(s string) bool { return s == "" })
		if p.In != InQuery || len(texts) == 0 {
			continue
		}
		if err := p.set(into.FieldByIndex(p.Field.Index), texts); err != nil {
			return err
		}
	}
	return nil
}

// Request is a request for an operation, a pointer to a struct, of the texts of its fields and of its body. A field
// of the path has to be there.
func Request(d *Description, fields url.Values, body io.Reader) (q any, err error) {
	v := reflect.New(d.Asks)
	if err := d.Parse(fields, v.Interface()); err != nil {
		return nil, err
	}
	for i := range d.Params {
		p := &d.Params[i]
		f := v.Elem().FieldByIndex(p.Field.Index)
		switch text := fields.Get(p.Name); {
		case p.In == InPath && text == "":
			return nil, fmt.Errorf("%s needs %s", d.ID, p.Name)
		case p.In == InPath || p.In == InHeader:
			f.SetString(text)
		case p.In == InBody && body != nil:
			if f.Kind() == reflect.Interface {
				f.Set(reflect.ValueOf(body))
				continue
			}
			all, err := io.ReadAll(body)
			if err != nil {
				return nil, err
			}
			if err := p.fill(f, all); err != nil {
				return nil, err
			}
		}
	}
	return v.Interface(), nil
}

// given are the parameters of a request: those of the URL, and of the form of a change.
func (d *Description) given(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	if d.Method == http.MethodPost && d.Body() == nil {
		err := ReadForm(w, r)
		return r.Form, err
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		err = Refuse(http.StatusBadRequest, "%v", err)
	}
	return given, err
}

// ReadForm reads the form of a change, of MaxForm bytes at most, into r.Form; once.
func ReadForm(w http.ResponseWriter, r *http.Request) error {
	if r.Body != nil {
		r.Body = http.MaxBytesReader(w, r.Body, MaxForm)
	}
	err := r.ParseForm()
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return Refuse(http.StatusRequestEntityTooLarge, "the form is larger than %d MiB: choose less at a time", MaxForm>>20)
	} else if err != nil {
		return Refuse(http.StatusBadRequest, "%v", err)
	}
	return nil
}

// set reads the texts of a parameter into its field.
func (p *Param) set(f reflect.Value, texts []string) error {
	text := texts[0]
	wrong := func(what string) error {
		said := Refuse(http.StatusBadRequest, "%s=%q%s", p.Name, text, what)
		said.Errors = []Mistake{{Parameter: p.Name, Detail: said.Detail}}
		return said
	}
	switch v := f.Addr().Interface().(type) {
	case *[]string:
		*v = texts
	case **string:
		*v = &text
	case *[]int64:
		for _, text = range texts {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return wrong(" is no number")
			}
			*v = append(*v, n)
		}
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return wrong(" is not a count")
		}
		if least, most, ok := p.Bounds(); ok && (n < least || n > most) {
			return wrong(fmt.Sprintf(": want %d to %d", least, most))
		}
		*v = n
	case *bool:
		if *v = text == "true"; !*v && text != "false" {
			return wrong(": want true or false")
		}
	default:
		allowed := p.Allowed()
		i := slices.IndexFunc(allowed, func(a string) bool { return strings.EqualFold(a, text) })
		switch {
		case p.Field.Tag.Get("form") == "uuid" && uuid.Validate(text) != nil:
			return wrong(" is no UUID")
		case i >= 0:
			text = allowed[i]
		case len(allowed) > 0:
			return wrong(": want " + Or(allowed) + nearest.Said(text, allowed))
		}
		f.SetString(text)
	}
	return nil
}

// readTag reads the one ETag of an If-Match. Which of several was meant a change could not say.
func (d *Description) readTag(given []string, f reflect.Value) error {
	switch {
	case len(given) == 0:
		from := ""
		if d.Edits != nil {
			from = fmt.Sprintf(" of %s %s", d.Edits.Method, Full(d.Edits))
		}
		return Refuse(http.StatusPreconditionRequired, "%s changes what was read: send the ETag%s in the header If-Match, or If-Match: * to change whatever is there", d.ID, from)
	case len(given) == 1 && given[0] == Whatever:
		return nil
	case len(given) == 1 && tag.MatchString(given[0]):
		f.SetString(editedPart(strings.Trim(given[0], `"`)))
		return nil
	}
	return Refuse(http.StatusBadRequest, "the header If-Match is one ETag with its quotes, as reading gave it, and none that begins with W/")
}

// tag is an ETag.
var tag = regexp.MustCompile(`^"[!#-~]+"$`)

// Or lists words: a, b or c.
func Or(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " or " + words[n]
	}
	return strings.Join(words, "")
}

// readBody reads a body into its field: bytes, or JSON; a reader reads it itself.
func (p *Param) readBody(w http.ResponseWriter, r *http.Request, f reflect.Value) error {
	most := p.bytes()
	in := http.MaxBytesReader(w, r.Body, most)
	if f.Kind() == reflect.Interface {
		f.Set(reflect.ValueOf(in))
		return nil
	}
	body, err := io.ReadAll(in)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		size := fmt.Sprintf("%d MiB", most>>20)
		if most < 1<<20 {
			size = fmt.Sprintf("%d KiB", most>>10)
		}
		return Refuse(http.StatusRequestEntityTooLarge, "the body is larger than %s: one request brings at most %s", size, size)
	}
	if err != nil {
		return Refuse(http.StatusBadRequest, "%v", err)
	}
	return p.fill(f, body)
}

// fill reads a body into its field.
func (p *Param) fill(f reflect.Value, body []byte) error {
	raw := f.Kind() == reflect.Slice
	switch empty := len(body) == 0; {
	case empty && raw && p.Optional(): // the operation says what that means
		return nil
	case empty && raw:
		return Refuse(http.StatusBadRequest, "the request has no body, and nothing is not taken for a payload")
	case empty:
		return Refuse(http.StatusBadRequest, "the request has no body, which would say what is asked for")
	}
	if raw {
		f.SetBytes(body)
		return nil
	}
	if err := Known(f.Type(), body); err != nil {
		return err
	}
	if err := json.Unmarshal(body, f.Addr().Interface()); err != nil {
		return Refuse(http.StatusBadRequest, "the body is not what is asked for: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
