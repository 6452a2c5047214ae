package windowsingest

import (
	"fmt"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// maxRefused is how many records that are refused an answer names.
const maxRefused = 100

// load is what a request brings of one batch id, as it is judged.
type load struct {
	id     string // as the request says it; empty: it does not
	batch  record.Batch
	kind   record.Kind
	expect int    // records the batch will have; 0: nobody told
	trace  string // of the request; empty: none

	read    record.Record
	records []window.Record // that are good, and are to be stored
	kept    []window.Kept
	index   int // of the next record

	accepted, duplicate, rejected int
	refused                       []refusal // the first of them
}

// refusal is what is wrong with a record.
type refusal struct {
	index int // from 0, of all records
	line  int // from 1; 0: they are no lines
	why   string
}

// broken is what makes a body unreadable: a record of it is no JSON.
type broken struct {
	index int
	why   error
}

func (b *broken) Error() string { return fmt.Sprintf("record %d: %v", b.index, b.why) }

// judge reads records, and takes in those that are good. Where they are not in lines by
// themselves, one that is no JSON is *broken: nobody knows then where the next begins.
func (l *load) judge(raws []raw, lines bool) error {
	if cap(l.records) < len(raws) {
		l.records, l.kept = make([]window.Record, 0, len(raws)), make([]window.Kept, len(raws))
	}
	for _, raw := range raws {
		r, err := record.ToWindow(l.batch, l.kind, raw.bytes, &l.read)
		switch {
		case err == nil:
			r.Expect, r.Trace = l.expect, l.trace
			l.records = append(l.records, r)
		case !lines && !isJSON(raw.bytes):
			return &broken{l.index, err}
		default:
			if l.rejected++; len(l.refused) < maxRefused {
				l.refused = append(l.refused, refusal{l.index, raw.line, err.Error()})
			}
		}
		l.index++
	}
	return nil
}

// stored counts what was stored, and makes room for more.
func (l *load) stored(x *exchange) {
	n := len(l.records)
	for _, k := range l.kept[:n] {
		if k == window.Overwrote {
			l.duplicate++
			n--
		}
	}
	l.accepted += n
	x.Count(accepted, n)
	x.Count(duplicate, len(l.records)-n)
	clear(l.records)
	l.records = l.records[:0]
}

// appendTo appends what became of the records, as members of an object.
func (l *load) appendTo(b []byte) []byte {
	b = endpoint.Quote(append(b, `"batch":`...), l.id)
	b = endpoint.Number(endpoint.Number(endpoint.Number(b, "accepted", l.accepted), "duplicate", l.duplicate), "rejected", l.rejected)
	return l.appendRefused(b)
}

// appendRefused appends which records are refused, if there are any, with a comma before it.
func (l *load) appendRefused(b []byte) []byte {
	if l.rejected == 0 {
		return b
	}
	b = append(b, `,"refused":[`...)
	for i, r := range l.refused {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"index":%d`, r.index)
		if r.line > 0 {
			b = endpoint.Number(b, "line", r.line)
		}
		b = append(endpoint.Quote(append(b, `,"message":`...), r.why), '}')
	}
	b = append(b, ']')
	if l.rejected > len(l.refused) {
		b = append(b, `,"more":true`...)
	}
	return b
}
