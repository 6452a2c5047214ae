package redisdeadletter

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// adoptRows is how many entries one step reads.
const adoptRows = 100

// adopt makes dead letters of the entries behind the mark that have no companions: entries
// that another program wrote, and, where the companions were lost, ours. Nearly always
// there are none; then it is one short read.
func (s *Store) adopt(ctx context.Context) error {
	for range tries * 100 { // as many entries as a stream may have and more
		done, err := s.adoptSome(ctx)
		if done || err != nil && !errors.Is(err, errConflict) {
			return err
		}
	}
	return tidemill.Fail(tidemill.Transient, "others write to stream %q faster than it can be looked through", s.stream)
}

// adoptSome makes one step and says whether it was the last.
func (s *Store) adoptSome(ctx context.Context) (done bool, err error) {
	mark, err := s.client.Do(ctx, s.client.B().Get().Key(s.mark).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		mark, err = "0-0", nil
	}
	if err != nil {
		return false, failed(err)
	}
	read, err := s.client.Do(ctx, s.client.B().Xrange().Key(s.stream).Start("("+mark).End("+").Count(adoptRows).Build()).AsXRange()
	if err != nil {
		return false, failed(err)
	}
	if len(read) == 0 {
		return true, nil
	}
	entries, letters, fields := make([]entry, len(read)), make([]*tidemill.DeadLetter, len(read)), make([]string, len(read))
	for i, x := range read {
		entries[i] = entry{x.ID, x.FieldValues}
		letters[i] = entries[i].letter(s.o.Pipeline)
		fields[i] = idField(letters[i].Pipeline, letters[i].Message.ID)
	}
	found, err := s.find(ctx, fields)
	if err != nil {
		return false, err
	}
	c := commit{all: true, read: mark, mark: read[len(read)-1].ID}
	type name struct{ field, tenant string }
	adopted := map[name]*deadletter.Record{}
	for i := range entries {
		e, l := &entries[i], letters[i]
		n := name{fields[i], l.Message.Tenant}
		r, known := found[fields[i]].of(l.Message.Tenant)
		switch {
		case known && r.entryOf() == e.id: // it has its companions
		case known || adopted[n] != nil: // the message has a newer dead letter, and only one
			c.changes = append(c.changes, change{kind: "drop", entry: e.id})
		default:
			record := new(deadletter.Record)
			record.Put(l)
			record.Seq, record.Edited = e.seq(), e.edited()
			adopted[n] = record
			c.changes = append(c.changes, change{kind: "add", r: record, old: found[fields[i]].raw, entry: e.id, history: true})
		}
	}
	_, err = c.run(ctx, s)
	return false, err
}
