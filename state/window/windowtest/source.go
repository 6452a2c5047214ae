package windowtest

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/window"
)

// Source makes a harness of package sourcetest out of a store: each accepted message becomes
// a window with one record, with the message's key as batch id, and a received message is
// read from its page. reopen is as Harness.Reopen, or nil.
func Source(t *testing.T, store window.Store, lease time.Duration, reopen func(t *testing.T) window.Store) sourcetest.Harness {
	n := 0
	keeps := sourcetest.AllFields
	keeps.ID = false // it is the window's
	h := sourcetest.Harness{Lease: lease, Keeps: keeps, ByID: true,
		Accept: func(ms ...*tidemill.Message) {
			t.Helper()
			var rs []window.Record
			had := map[string]bool{}
			flush := func() {
				t.Helper()
				if err := store.Put(t.Context(), rs, nil); err != nil {
					t.Fatalf("Put: %v", err)
				}
				for left := len(rs); left > 0; {
					done, err := store.Sweep(t.Context())
					if err != nil || done.Closed == 0 {
						t.Fatalf("Sweep: %+v, %v; %d windows are full", done, err, left)
					}
					left -= done.Closed
				}
				rs = rs[:0]
				clear(had)
			}
			for _, m := range ms {
				n++
				batch := string(m.Key)
				if batch == "" {
					batch = fmt.Sprint("without a key ", n)
				}
				if had[batch] {
					flush()
				}
				had[batch] = true
				var body bytes.Buffer
				if err := gob.NewEncoder(&body).Encode(m); err != nil {
					t.Fatal(err)
				}
				rs = append(rs, window.Record{Batch: batch, Kind: "message", ID: "1", Body: body.Bytes(), Expect: 1})
			}
			flush()
		},
		Open: func() tidemill.Source { return unpacked{store.Open(), store} },
	}
	if reopen != nil {
		h.Kill = func() { store = reopen(t) }
	}
	return h
}

// unpacked is a source of windows that hands out the messages in them.
type unpacked struct {
	tidemill.Source
	store window.Store
}

func (u unpacked) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n, err := u.Source.Receive(ctx, into)
	var all errgroup.Group
	all.SetLimit(32)
	for _, m := range into[:n] {
		all.Go(func() error { return u.unpack(context.WithoutCancel(ctx), m) })
	}
	if err := all.Wait(); err != nil {
		return 0, err
	}
	return n, err
}

// unpack replaces a window's message by the one in it.
func (u unpacked) unpack(ctx context.Context, m *tidemill.Message) error {
	page := make([]window.Record, 2)
	p, err := u.store.Page(ctx, m.Mark, "", page)
	if err != nil || p.N != 1 || p.Next != "" {
		return fmt.Errorf("page of %q: %+v, %w", m.ID, p, err)
	}
	var in tidemill.Message
	if err := gob.NewDecoder(bytes.NewReader(page[0].Body)).Decode(&in); err != nil {
		return err
	}
	m.Tenant, m.Type, m.Key, m.Payload, m.Header, m.Time, m.Priority = in.Tenant, in.Type, in.Key, in.Payload, in.Header, in.Time, in.Priority
	return nil
}

func (u unpacked) Keep(ctx context.Context) error {
	return u.Source.(tidemill.Keeper).Keep(ctx)
}

func (u unpacked) Books(ctx context.Context) (tidemill.Books, error) {
	return u.Source.(tidemill.Bookkeeper).Books(ctx)
}
