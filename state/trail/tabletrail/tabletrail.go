// Package tabletrail keeps the audit trail in a table of any backend.
package tabletrail

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/trail"
)

// Record is an entry, the end of one, or the head of the trail. The end of an entry stands in the
// entry too, to be found by it.
type Record struct{ record }

// record is in it as one, so that the names of functions of the table, which have all fields in them, are short.
type record struct {
	key   string
	entry bool // false: it is an end, or the head
	trail.Entry
	of   uint64 // of an end: the entry's number
	prev string // the hash of the one before; of the head, that before the oldest
	hash string // of the head, that of the newest
}

// head is the key of what the next entry follows: its seq is the newest number, its of the oldest.
const head = "head"

func keyOf(seq uint64) string { return fmt.Sprintf("%020d", seq) }

// Spec is what a record is.
func Spec() table.Spec[Record] {
	return table.Spec[Record]{Name: "trail", Fields: []table.Field[Record]{
		{Name: "key", At: func(r *Record) any { return &r.key }},
		{Name: "entry", At: func(r *Record) any { return &r.entry }},
		{Name: "seq", At: func(r *Record) any { return &r.Seq }},
		{Name: "time", At: func(r *Record) any { return &r.At }},
		{Name: "who", At: func(r *Record) any { return &r.Who }},
		{Name: "role", At: func(r *Record) any { return &r.Role }},
		{Name: "via", At: func(r *Record) any { return &r.Via }},
		{Name: "address", At: func(r *Record) any { return &r.From }},
		{Name: "session", At: func(r *Record) any { return &r.Session }},
		{Name: "operation", At: func(r *Record) any { return &r.Operation }},
		{Name: "thing", At: func(r *Record) any { return &r.Thing }},
		{Name: "filter", At: func(r *Record) any { return &r.Filter }},
		{Name: "request", At: func(r *Record) any { return &r.Request }},
		{Name: "trace", At: func(r *Record) any { return &r.Trace }},
		{Name: "outcome", At: func(r *Record) any { return &r.Outcome }},
		{Name: "ended", At: func(r *Record) any { return &r.Ended }},
		{Name: "status", At: func(r *Record) any { return &r.Status }},
		{Name: "detail", At: func(r *Record) any { return &r.Detail }},
		{Name: "before", At: func(r *Record) any { return &r.Before }},
		{Name: "after", At: func(r *Record) any { return &r.After }},
		{Name: "of", At: func(r *Record) any { return &r.of }},
		{Name: "prev", At: func(r *Record) any { return &r.prev }},
		{Name: "hash", At: func(r *Record) any { return &r.hash }},
	}, Orders: []table.Order{{Name: "all", By: []string{"entry", "seq"}}, {Name: "by_who", By: []string{"who", "seq"}}, {Name: "by_operation", By: []string{"operation", "seq"}},
		{Name: "by_thing", By: []string{"thing", "seq"}}, {Name: "by_outcome", By: []string{"outcome", "entry", "seq"}}}}
}

// Trail implements trail.Trail.
type Trail[Raw any] struct{ t table.Store[Record, Raw] }

var _ trail.Trail = (*Trail[any])(nil)

// New makes a trail of a table; what is in it stays.
func New[Raw any](t table.Store[Record, Raw]) *Trail[Raw] { return &Trail[Raw]{t} }

// Memory makes an empty trail in memory.
func Memory() *Trail[*memorytable.Tx] { return New(memorytable.Alone(Spec())) }

// begun is what the hash of an entry is made of.
func begun(e trail.Entry) trail.Entry {
	e.Seq, e.End = 0, trail.End{}
	e.At = kept(e.At)
	return e
}

// ended is what the hash of an end is made of.
func ended(of uint64, end trail.End) any {
	return struct {
		Of uint64 `json:"of"`
		trail.End
	}{of, end}
}

func milli(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Millisecond)
}

// kept is a time as it is read back, which hashes are made of: none where a table, or JSON, has no
// place for it.
func kept(t time.Time) time.Time {
	if t = milli(t); t.UnixMilli() == 0 || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// cut bounds a text.
func cut(texts ...*string) {
	for _, s := range texts {
		*s = strings.ToValidUTF8((*s)[:min(len(*s), trail.Most)], "")
	}
}

// short bounds what an index is of.
func short(texts ...*string) {
	for _, s := range texts {
		*s = strings.ToValidUTF8((*s)[:min(len(*s), table.MaxKey)], "")
	}
}

// add puts a record behind the newest.
func add(tx table.Tx[Record], h *Record, r *Record, of any) error {
	if h == nil {
		h = &Record{record{key: head}}
	}
	h.Seq++
	if h.of == 0 {
		h.of = h.Seq
	}
	r.key, r.Seq, r.prev = keyOf(h.Seq), h.Seq, h.hash
	r.hash = hashOf(r.prev, r.Seq, of)
	h.hash = r.hash
	return tx.Put([]*Record{h, r})
}

// Begin implements trail.Trail.
func (t *Trail[Raw]) Begin(ctx context.Context, e trail.Entry) (seq uint64, err error) {
	e = begun(e)
	cut(&e.Filter)
	short(&e.Who, &e.Operation, &e.Thing, &e.Request, &e.Trace, &e.Session, &e.From)
	of := e
	e.Outcome = trail.Unknown
	err = t.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		found, err := tx.Get([]string{head})
		if err != nil {
			return err
		}
		r := &Record{record{entry: true, Entry: e}}
		err = add(tx, found[head], r, of)
		seq = r.Seq
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("write the audit trail: %w", err)
	}
	return seq, nil
}

// End implements trail.Trail.
func (t *Trail[Raw]) End(ctx context.Context, seq uint64, end trail.End) error {
	cut(&end.Detail, &end.Before, &end.After)
	end.Ended = kept(end.Ended)
	err := t.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		key := keyOf(seq)
		found, err := tx.Get([]string{head, key})
		if err != nil {
			return err
		}
		e := found[key]
		if e == nil || !e.entry || e.Outcome != trail.Unknown {
			return errors.New("it is none that has not ended")
		}
		e.End = end
		if err := tx.Put([]*Record{e}, "outcome", "ended", "status", "detail", "before", "after"); err != nil {
			return err
		}
		return add(tx, found[head], &Record{record{of: seq, Entry: trail.Entry{End: end}}}, ended(seq, end))
	})
	if err != nil {
		return fmt.Errorf("write the end of entry %d of the audit trail: %w", seq, err)
	}
	return nil
}

// List implements trail.Trail.
func (t *Trail[Raw]) List(ctx context.Context, f trail.Filter) (all []trail.Entry, err error) {
	q := table.Query[Record]{By: "all", Back: f.Back, Most: f.Most}
	is := func(field, by, value string) {
		if value == "" {
			return
		}
		q.Where = append(q.Where, table.Cond{Field: field, Op: "=", Value: value})
		if q.By == "all" {
			q.By = by
		}
	}
	is("thing", "by_thing", f.Thing)
	is("who", "by_who", f.Who)
	is("operation", "by_operation", f.Operation)
	is("outcome", "by_outcome", f.Outcome)
	q.Where = append(q.Where, table.Cond{Field: "entry", Op: "=", Value: true})
	if !f.After.IsZero() {
		q.Where = append(q.Where, table.Cond{Field: "time", Op: ">=", Value: milli(f.After)})
	}
	if !f.Before.IsZero() {
		q.Where = append(q.Where, table.Cond{Field: "time", Op: "<", Value: milli(f.Before)})
	}
	if f.Beyond > 0 {
		op := ">"
		if f.Back {
			op = "<"
		}
		q.Where = append(q.Where, table.Cond{Field: "seq", Op: op, Value: f.Beyond})
	}
	err = t.t.View(ctx, func(tx table.Reader[Record]) error {
		page, err := tx.Page(q)
		all = make([]trail.Entry, len(page))
		for i, r := range page {
			all[i] = r.Entry
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the audit trail: %w", err)
	}
	return all, nil
}

// Expire implements trail.Trail.
func (t *Trail[Raw]) Expire(ctx context.Context, before time.Time, over int) (n int, err error) {
	err = t.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		n = 0
		found, err := tx.Get([]string{head})
		h := found[head]
		if err != nil || h == nil {
			return err
		}
		rs, err := tx.Page(table.Query[Record]{Most: 1000, Where: []table.Cond{{Field: "key", Op: "<", Value: head}}, Only: []string{"entry", "seq", "time", "ended", "hash"}})
		if err != nil {
			return err
		}
		var gone []string
		for _, r := range rs {
			at := r.At
			if !r.entry {
				at = r.Ended
			}
			if !at.Before(before) && h.Seq-r.Seq < uint64(over) || r.Seq == h.Seq {
				break
			}
			gone = append(gone, r.key)
			h.of, h.prev = r.Seq+1, r.hash
			n++
		}
		if n == 0 {
			return nil
		}
		if err := tx.Delete(gone); err != nil {
			return err
		}
		return tx.Put([]*Record{h})
	})
	if err != nil {
		return 0, fmt.Errorf("forget old entries of the audit trail: %w", err)
	}
	return n, nil
}

// hashOf is the hash of an entry, or of an end, behind one of the hash prev.
func hashOf(prev string, seq uint64, of any) string {
	b, _ := json.Marshal(struct {
		Prev string `json:"prev"`
		Seq  uint64 `json:"seq"`
		Of   any    `json:"of"`
	}{prev, seq, of}) // of texts, numbers and times
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
