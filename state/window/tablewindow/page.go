package tablewindow

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/blob"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// reading is what is read of a window for a page.
var reading = []string{"batch", "revision", "state", "records", "bytes", "blobs", "lost", "epoch", "replays"}

// held reads a window that is handed out under this mark.
func held(tx table.Reader[Record], m tidemill.Mark, only ...string) (*Record, error) {
	key := closedKey(m.Lo)
	found, err := tx.Get([]string{key}, only...)
	if err != nil {
		return nil, err
	}
	if r := found[key]; r != nil && m != (tidemill.Mark{}) && r.fill().Holds(m) {
		return r, nil
	}
	return nil, entry.Stale(m)
}

// Page implements window.Store. It counts records that are missing on the last page at once.
func (s *Store[Raw]) Page(ctx context.Context, m tidemill.Mark, from string, into []window.Record) (p window.Page, err error) {
	var r *Record
	if err := s.windows.View(ctx, func(tx table.Reader[Record]) (err error) {
		r, err = held(tx, m, reading...)
		return err
	}); err != nil {
		return p, err
	}
	p, err = s.page(ctx, r, from, into)
	if err == nil && int64(p.Lost) > r.Lost {
		err = s.noteLost(ctx, m, int64(p.Lost))
	}
	if err != nil {
		return window.Page{}, err
	}
	return p, nil
}

// noteLost counts records as lost, once.
func (s *Store[Raw]) noteLost(ctx context.Context, m tidemill.Mark, lost int64) error {
	err := s.update(ctx, func(c *change) error {
		r, err := held(c.windows, m, reading...)
		if err != nil || lost <= r.Lost {
			return err
		}
		c.books.lost += uint64(lost - r.Lost)
		r.Lost = lost
		return c.windows.Put([]*Record{r.seal()}, "lost")
	})
	if err != nil {
		return fmt.Errorf("count %d lost records: %w", lost, err)
	}
	return nil
}

// Peek implements window.Inspector.
func (s *Store[Raw]) Peek(ctx context.Context, id, from string, into []window.Record) (p window.Page, err error) {
	r, err := s.look(ctx, id)
	if err != nil {
		return p, err
	}
	return s.page(ctx, r, from, into)
}

// page reads a page of a window.
func (s *Store[Raw]) page(ctx context.Context, r *Record, from string, into []window.Record) (p window.Page, err error) {
	if len(into) == 0 {
		return p, entry.NoRoom()
	}
	at, err := blob.ParseCursor(from)
	if err != nil {
		return p, err
	}
	last := int64(r.blobs)
	for size := 0; at.Blob <= last; {
		if p.N == len(into) || size >= window.PageBytes {
			p.Next = at.String()
			return p, nil
		}
		want := r.blobsOf(len(into)-p.N+int(at.Skip), window.PageBytes-size)
		rows, err := s.read(ctx, r.Revision, uint64(at.Blob), want)
		if err != nil {
			return window.Page{}, fmt.Errorf("read records of window %q: %w", r.ID, err)
		}
		for _, b := range rows {
			if no := int64(blobNo(b.key)); no != at.Blob {
				at.Blob, at.Skip = no, 0
			}
			for list := blob.Read(b.data); int(at.Skip) < len(list); at.Skip++ {
				if p.N == len(into) || size >= window.PageBytes {
					p.Next = at.String()
					return p, nil
				}
				into[p.N] = list[at.Skip].Record(r.Batch)
				size += len(into[p.N].Body)
				p.N, at.Read = p.N+1, at.Read+1
			}
			at.Blob, at.Skip = at.Blob+1, 0
		}
		if len(rows) < want {
			break
		}
	}
	if r.State != window.Active {
		p.Lost = int(max(r.Records-at.Read, 0))
	}
	return p, nil
}

// blobsOf is how many blobs of a window have so many records or bytes, about: fewer where most are
// small, so that a page reads on.
func (r *Record) blobsOf(records, bytes int) int {
	n := min(int64(records)*int64(r.blobs)/max(r.Records, 1), int64(bytes)*int64(r.blobs)/max(r.Bytes, 1))
	return int(min(max(n, 1), readMost))
}

// readMost is how many blobs are read at once.
const readMost = 256

// read reads blobs of a window.
func (s *Store[Raw]) read(ctx context.Context, revision, from uint64, most int) (rows []*Blob, err error) {
	err = s.blobs.View(ctx, func(tx table.Reader[Blob]) (err error) {
		rows, err = tx.Page(table.Query[Blob]{Where: of(revision, from), Most: most, Only: []string{"data"}})
		return err
	})
	return rows, err
}
