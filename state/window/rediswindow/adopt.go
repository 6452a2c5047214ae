package rediswindow

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/state/window"
)

// Old says where the other system keeps the batches that Adopt takes over. The zero value
// fits the system that collects batches in one string for each record.
type Old struct {
	// Prefix begins all its names: active:batches and ready:batches, sets of batch ids;
	// batch:start:<batch>, when it was opened (ms); batch:events:<batch> and
	// batch:mentions:<batch>, sets of ids; data:event:<batch>:<id> and data:mention:<batch>:<id>,
	// the records.
	Prefix string
	// Event and Mention are the kinds of the adopted records; empty means event and
	// mention.
	Event, Mention string
	// Batch is the batch id here for one of the other system; nil: the same.
	Batch func(id string) string
}

// Adopted is what was taken over.
type Adopted struct {
	Batches int // with at least one id
	Records int
	Lost    int // ids without their record: counted as lost, and booked as dead
}

// adoptMost is how many records are taken over in one step.
const adoptMost = 500

// Adopt takes over the batches of the system that you migrate from, which must have been
// stopped. It puts every record, byte for byte, into the window of its batch id, and deletes
// the old one. A ready batch is ready at once, and so is one that is in neither set any more:
// the other system removes a batch from the sets before it delivers it. Any other batch is
// over when it would have been. After an error call Adopt again: a record put twice is one
// record.
func (s *Store) Adopt(ctx context.Context, o Old) (done Adopted, err error) {
	o.Event, o.Mention = cmp.Or(o.Event, "event"), cmp.Or(o.Mention, "mention")
	if o.Batch == nil {
		o.Batch = func(id string) string { return id }
	}
	for _, set := range []string{"ready:batches", "active:batches"} {
		key := o.Prefix + set
		for {
			if err := ctx.Err(); err != nil {
				return done, err
			}
			batch, err := s.client.Do(ctx, s.client.B().Srandmember().Key(key).Build()).ToString()
			if rueidis.IsRedisNil(err) {
				break
			}
			if err == nil {
				err = s.adopt(ctx, o, unquoted(batch), set == "ready:batches", &done)
			}
			if err == nil {
				err = s.client.Do(ctx, s.client.B().Srem().Key(key).Member(batch).Build()).Error()
			}
			if err != nil {
				return done, failed(err, "take over batch %q", batch)
			}
		}
	}
	taken, err := s.taken(ctx, o.Prefix)
	if err != nil {
		return done, failed(err, "look for batches that were taken and not delivered")
	}
	for batch := range taken {
		if err := s.adopt(ctx, o, batch, true, &done); err != nil {
			return done, failed(err, "take over batch %q", batch)
		}
	}
	return done, nil
}

// Adoptable is what Adopt would take over now. It changes nothing.
func (s *Store) Adoptable(ctx context.Context, o Old) (would Adopted, err error) {
	found, err := s.taken(ctx, o.Prefix)
	if err != nil {
		return would, failed(err, "look for batches to take over")
	}
	for batch := range found {
		would.Batches++
		for set, data := range map[string]string{"batch:events:": "data:event:", "batch:mentions:": "data:mention:"} {
			if err := s.countOld(ctx, o.Prefix+set+batch, o.Prefix+data+batch+":", &would); err != nil {
				return would, failed(err, "count what batch %q has", batch)
			}
		}
	}
	return would, nil
}

// countOld counts the ids of one set, those with their record and those without.
func (s *Store) countOld(ctx context.Context, set, data string, would *Adopted) error {
	seen := map[string]bool{} // a scan may show an id twice
	for at := uint64(0); ; {
		part, err := s.client.Do(ctx, s.client.B().Sscan().Key(set).Cursor(at).Count(adoptMost).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		var looks rueidis.Commands
		for _, id := range part.Elements {
			if !seen[id] {
				seen[id] = true
				looks = append(looks, s.client.B().Exists().Key(data+unquoted(id)).Build())
			}
		}
		for _, r := range s.client.DoMulti(ctx, looks...) {
			n, err := r.AsInt64()
			if err != nil {
				return err
			}
			would.Records, would.Lost = would.Records+int(n), would.Lost+int(1-n)
		}
		if at = part.Cursor; at == 0 {
			return nil
		}
	}
}

// taken finds the batches that have ids, by a scan of all names.
func (s *Store) taken(ctx context.Context, prefix string) (map[string]bool, error) {
	found := map[string]bool{}
	for _, node := range s.client.Nodes() {
		for _, set := range []string{"batch:events:", "batch:mentions:"} {
			for at := uint64(0); ; {
				names, err := node.Do(ctx, node.B().Scan().Cursor(at).Match(literal.Replace(prefix+set)+"*").Count(10*adoptMost).Type("set").Build()).AsScanEntry()
				if err != nil {
					return nil, err
				}
				for _, name := range names.Elements {
					found[name[len(prefix+set):]] = true
				}
				if at = names.Cursor; at == 0 {
					break
				}
			}
		}
	}
	return found, nil
}

// literal escapes a text, so that a pattern matches it literally.
var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// unquoted is a text that may have been written as JSON.
func unquoted(member string) string {
	var text string
	if len(member) > 1 && member[0] == '"' && json.Unmarshal([]byte(member), &text) == nil {
		return text
	}
	return member
}

// adopt takes over one batch.
func (s *Store) adopt(ctx context.Context, o Old, batch string, ready bool, done *Adopted) error {
	before := done.Records + done.Lost
	for _, part := range []struct{ set, data, kind string }{
		{"batch:events:", "data:event:", o.Event},
		{"batch:mentions:", "data:mention:", o.Mention},
	} {
		for {
			n, err := s.adoptSome(ctx, o.Batch(batch), o.Prefix+part.set+batch, o.Prefix+part.data+batch+":", part.kind, done)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	if done.Records+done.Lost > before {
		done.Batches++
	}
	start := o.Prefix + "batch:start:" + batch
	opened, err := s.client.Do(ctx, s.client.B().Get().Key(start).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	if err := s.adopted(ctx, o.Batch(batch), unquoted(opened), 0, ready); err != nil {
		return err
	}
	return s.client.Do(ctx, s.client.B().Del().Key(start).Build()).Error()
}

// adopted runs the script that ends a step, or a whole batch.
func (s *Store) adopted(ctx context.Context, batch, opened string, lost int, ready bool) error {
	closing := "0"
	if ready {
		closing = "1"
	}
	if _, err := strconv.ParseInt(opened, 10, 64); err != nil {
		opened = "0" // not known
	}
	return s.run(ctx, adoptScript, s.shard(batch), batch, opened, strconv.Itoa(lost), closing).Error()
}

// adoptSome takes over some records of one kind into a batch, and says how many ids it read.
func (s *Store) adoptSome(ctx context.Context, batch, set, data, kind string, done *Adopted) (int, error) {
	ids, err := s.client.Do(ctx, s.client.B().Srandmember().Key(set).Count(adoptMost).Build()).AsStrSlice()
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	reads := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		reads[i] = s.client.B().Get().Key(data + unquoted(id)).Build()
	}
	var found []window.Record
	var here, lost []string // ids
	for i, r := range s.client.DoMulti(ctx, reads...) {
		body, err := r.ToString()
		if rueidis.IsRedisNil(err) {
			lost = append(lost, ids[i])
			continue
		}
		if err != nil {
			return 0, err
		}
		here = append(here, ids[i])
		found = append(found, window.Record{Batch: batch, Kind: kind, ID: unquoted(ids[i]), Body: []byte(body)})
	}
	if err := s.Put(ctx, found, nil); err != nil {
		return 0, err
	}
	// An id is removed before its data, and before it is counted: after an error the next
	// call must not take a record in its window for lost, nor count a lost one again.
	if len(lost) > 0 {
		n, err := s.client.Do(ctx, s.client.B().Srem().Key(set).Member(lost...).Build()).AsInt64()
		if err != nil {
			return 0, err
		}
		if err := s.adopted(ctx, batch, "", int(n), false); err != nil {
			return 0, err
		}
	}
	if len(here) > 0 {
		if err := s.client.Do(ctx, s.client.B().Srem().Key(set).Member(here...).Build()).Error(); err != nil {
			return 0, err
		}
	}
	deletes := make(rueidis.Commands, len(here))
	for i, id := range here {
		deletes[i] = s.client.B().Unlink().Key(data + unquoted(id)).Build()
	}
	for _, r := range s.client.DoMulti(ctx, deletes...) {
		if err := r.Error(); err != nil {
			return 0, err
		}
	}
	done.Records, done.Lost = done.Records+len(found), done.Lost+len(lost)
	return len(ids), nil
}
