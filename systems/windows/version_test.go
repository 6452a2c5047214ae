package windows_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// lateIndex answers nothing to its first request, and carries it out much later, as a server under
// load does for a client that was killed or has given up.
type lateIndex struct {
	search.Store
	mu    sync.Mutex // guards first
	first []search.Doc
}

func (i *lateIndex) Index(ctx context.Context, docs []search.Doc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.first != nil {
		return i.Store.Index(ctx, docs)
	}
	for _, d := range docs {
		d.Body = slices.Clone(d.Body)
		i.first = append(i.first, d)
	}
	return tidemill.Fail(tidemill.Timeout, "no answer")
}

func TestARequestThatTheIndexCarriesOutLateReplacesNothingNewer(t *testing.T) {
	in(t, func(w *world) {
		late := &lateIndex{Store: w.index}
		w.index, w.version = late, func(m *tidemill.Message) uint64 { return m.Mark.Lo + 1 }
		w.up(windows.Options{})
		w.send("1", "event", event(1))
		rest(15 * time.Minute)
		w.send("2", "event", strings.Replace(event(1), "ACTOR 1", "ACTOR 2", 1))
		rest(15 * time.Minute)
		if len(late.first) != 1 {
			w.Errorf("the first request had %d documents, want 1", len(late.first))
		}
		if err := late.Store.Index(w.Context(), late.first); err != nil {
			w.Error(err)
		}
		p, err := w.index.Search(w.Context(), search.Query{Schema: search.Events().Name, Size: 10})
		if err != nil || len(p.Hits) != 1 {
			w.Error(p, err)
		} else if !strings.Contains(string(p.Hits[0].Body), "ACTOR 2") {
			w.Errorf("the index has %s, want the newer one", p.Hits[0].Body)
		}
	})
}
