package rediswindow

import (
	"context"
	"strconv"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/blob"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// reader reads one window: under a lease, or for inspection.
type reader struct {
	s     *Store
	shard int
	lease []string // number, epoch, replays; the latter empty for inspection
	batch string   // empty: any
	gone  error    // the lease is not the newest, or the window is gone

	blob.Cursor
	state         string
	records, lost int64
	moved         bool
	blobs         int64
	held          []string // blobs read, from Cursor.Blob on
}

// Page implements window.Store. It counts records that are missing on the last page at
// once.
func (s *Store) Page(ctx context.Context, m tidemill.Mark, from string, into []window.Record) (window.Page, error) {
	if err := ctx.Err(); err != nil {
		return window.Page{}, err
	}
	if m.Epoch == 0 || int(m.Shard) >= len(s.tags) {
		return window.Page{}, entry.Stale(m)
	}
	r := &reader{s: s, shard: int(m.Shard), lease: lease(m), gone: entry.Stale(m)}
	p, err := r.page(ctx, from, into)
	if err == nil && int64(p.Lost) > r.lost {
		var n int64
		n, err = s.run(ctx, lostScript, r.shard, append(r.lease, strconv.Itoa(p.Lost))...).AsInt64()
		if err != nil {
			err = failed(err, "count %d lost records", p.Lost)
		} else if n == 0 {
			err = r.gone
		}
	}
	if err != nil {
		return window.Page{}, err
	}
	return p, nil
}

// Peek implements window.Inspector.
func (s *Store) Peek(ctx context.Context, id, from string, into []window.Record) (window.Page, error) {
	if err := ctx.Err(); err != nil {
		return window.Page{}, err
	}
	batch, revision, ok := window.ParseID(id)
	if !ok {
		return window.Page{}, window.NotFound(id)
	}
	r := &reader{s: s, shard: s.shard(batch), lease: []string{strconv.FormatUint(revision, 10), "", ""}, batch: batch, gone: window.NotFound(id)}
	return r.page(ctx, from, into)
}

// page fills into: it reads blobs until into is full, or large enough, or no more follow.
func (r *reader) page(ctx context.Context, from string, into []window.Record) (p window.Page, err error) {
	if len(into) == 0 {
		return p, entry.NoRoom()
	}
	if r.Cursor, err = blob.ParseCursor(from); err != nil {
		return p, err
	}
	size := 0
	for {
		if err := ctx.Err(); err != nil {
			return window.Page{}, err
		}
		if err := r.load(ctx, len(into)-p.N+int(r.Skip), window.PageBytes-size); err != nil {
			return window.Page{}, err
		}
		for _, data := range r.held {
			rs := blob.Read([]byte(data))
			live, err := r.live(ctx, rs)
			if err != nil {
				return window.Page{}, err
			}
			for ; int(r.Skip) < len(rs); r.Skip++ {
				if live != nil && !live[r.Skip] {
					continue
				}
				if p.N == len(into) || size >= window.PageBytes {
					p.Next = r.String()
					return p, nil
				}
				into[p.N] = rs[r.Skip].Record(r.batch)
				size += len(into[p.N].Body)
				p.N++
				r.Read++
			}
			r.Blob, r.Skip = r.Blob+1, 0
		}
		switch {
		case r.Blob > r.blobs:
			if r.state != string(window.Active) {
				p.Lost = int(max(r.records-r.Read, 0))
			}
			return p, nil
		case p.N == len(into) || size >= window.PageBytes:
			p.Next = r.String()
			return p, nil
		}
	}
}

// load reads blobs.
func (r *reader) load(ctx context.Context, records, bytes int) error {
	args := append(r.lease[:3:3], r.batch, strconv.FormatInt(r.Blob, 10), strconv.Itoa(records), strconv.Itoa(bytes))
	v, err := r.s.run(ctx, pageScript, r.shard, args...).AsStrSlice()
	switch {
	case err != nil:
		return failed(err, "read records of window %s", r.lease[0])
	case len(v) == 0:
		return r.gone
	case len(v) < 6:
		return reply("read records")
	}
	r.batch, r.state, r.moved, r.held = v[0], v[1], v[4] == "1", v[6:]
	for i, into := range map[int]*int64{2: &r.records, 3: &r.lost, 5: &r.blobs} {
		if *into, err = strconv.ParseInt(v[i], 10, 64); err != nil {
			return reply("read records")
		}
	}
	return nil
}

// live says which records of a blob count: not those that came again, in a later blob. Nil: all.
func (r *reader) live(ctx context.Context, rs []blob.Stored) ([]bool, error) {
	if !r.moved || len(rs) == 0 {
		return nil, nil
	}
	args := r.lease[:3:3]
	for _, x := range rs {
		d := blob.DigestOf(x.Key)
		args = append(args, string(d[:]))
	}
	v, err := r.s.run(ctx, movedScript, r.shard, args...).AsStrSlice()
	switch {
	case err != nil:
		return nil, failed(err, "read records of window %s", r.lease[0])
	case len(v) == 0:
		return nil, r.gone
	case len(v) != len(rs):
		return nil, reply("read records")
	}
	at := strconv.FormatInt(r.Blob, 10)
	live := make([]bool, len(rs))
	for i := range live {
		live[i] = v[i] == "" || v[i] == at
	}
	return live, nil
}
