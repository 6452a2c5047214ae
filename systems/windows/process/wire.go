package process

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// request appends a body with items from index from on, as many as fit. It returns the index
// behind the last of them; even the first may not fit.
func (s *service) request(dst []byte, batch string, items []*Item, from int) ([]byte, int) {
	dst = append(dst, `{"batch":`...)
	dst, _ = jsontext.AppendQuote(dst, batch)
	dst = append(dst, `,"records":[`...)
	to := from
	for to < len(items) && to-from < s.Items {
		before := len(dst)
		if to > from {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(to-from), 10)
		dst = append(dst, `,"kind":"`...)
		dst = append(dst, items[to].Kind.String()...)
		dst = append(dst, `","record":`...)
		dst = append(s.record(dst, &items[to].Record), '}')
		if len(dst)+len("]}") > s.Bytes {
			dst = dst[:before]
			break
		}
		to++
	}
	return append(dst, "]}"...), to
}

// record appends what is sent of a record.
func (s *service) record(dst []byte, r *record.Record) []byte {
	if len(s.Fields) == 0 {
		return r.AppendJSON(dst)
	}
	dst = append(dst, `{"globalEventId":`...)
	dst = strconv.AppendInt(dst, r.ID, 10)
	for _, f := range s.fields[r.Kind] {
		dst = append(dst, `,"`...)
		dst = append(dst, r.Kind.Name(f)...)
		dst = append(dst, `":`...)
		if v := r.Value(f); v != nil {
			dst = append(dst, v...)
		} else {
			dst = append(dst, "null"...)
		}
	}
	return append(dst, '}')
}

func (s *service) build(ctx context.Context, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return nil, tidemill.Fail(tidemill.Internal, "make a request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	for name, value := range s.Header {
		r.Header.Set(name, value.Reveal())
	}
	return r, nil
}

// answer is what a service says of one record.
type answer struct {
	Index *int                       `json:"index"`
	Set   map[string]json.RawMessage `json:"set"`
	Skip  string                     `json:"skip"`
	Dead  string                     `json:"dead"`
}

// maxWhy is how many bytes of a reason are kept.
const maxWhy = 500

// parse reads an answer to a request of n records.
func parse(whole []byte, n int) ([]answer, error) {
	var all struct {
		Records []answer `json:"records"`
	}
	if err := json.Unmarshal(whole, &all); err != nil || all.Records == nil {
		return nil, tidemill.Fail(tidemill.Partner, "its answer is none that is expected: want {\"records\":[…]}")
	}
	seen := make([]bool, n)
	for i := range all.Records {
		a := &all.Records[i]
		switch {
		case a.Index == nil || *a.Index < 0 || *a.Index >= n:
			return nil, tidemill.Fail(tidemill.Partner, "its answer speaks of a record that was not sent")
		case seen[*a.Index]:
			return nil, tidemill.Fail(tidemill.Partner, "its answer speaks of a record twice")
		case len(a.Set) > record.MaxExtra:
			return nil, tidemill.Fail(tidemill.Partner, "its answer gives a record more than %d values", record.MaxExtra)
		}
		seen[*a.Index] = true
		a.Skip, a.Dead = short(a.Skip), short(a.Dead)
	}
	return all.Records, nil
}

func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxWhy)], "") }

// give sets a value of a record, one of its own names or another.
func give(r *record.Record, name string, v []byte) error {
	f, own := r.Kind.Lookup(name)
	switch {
	case own && f == record.GlobalEventID:
		return tidemill.Fail(tidemill.Validation, "globalEventId is what the record is known by, and stays as it is")
	case own:
		return r.Set(f, v)
	}
	return r.Add(name, v)
}

// apply applies answers. A value that a record may not have is a fault of the answer.
func apply(items []*Item, answers []answer) error {
	for _, a := range answers {
		it := items[*a.Index]
		for _, name := range slices.Sorted(maps.Keys(a.Set)) {
			if err := give(&it.Record, name, a.Set[name]); err != nil {
				return tidemill.Fail(tidemill.Partner, "its answer does not fit: %w", err)
			}
		}
		switch {
		case a.Dead != "":
			it.Refuse(tidemill.Fail(tidemill.Business, "%s", a.Dead))
		case a.Skip != "":
			it.Skip(a.Skip)
		}
	}
	return nil
}
