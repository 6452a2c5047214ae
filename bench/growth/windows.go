package growth

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/stores"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// records is how many a window has.
const records = 10

// windows are open, of few records each. Work opens some more, closes them, and takes, reads and
// settles each.
type windows struct {
	plain
	store window.Store
	from  tidemill.Source
}

func newWindows(s *stores.Stores) job { return &windows{store: s.Windows, from: s.Windows.Open()} }

func (w *windows) add(ctx context.Context, n int) error {
	return each(ctx, n, func(n int) error {
		_, err := w.put(ctx, n)
		return err
	})
}

// put opens windows, and returns their batch ids.
func (w *windows) put(ctx context.Context, n int) (batches []string, err error) {
	var all []window.Record
	for range n {
		batches = append(batches, id(w.made))
		for i := range records {
			all = append(all, window.Record{Batch: id(w.made), Kind: "event", ID: fmt.Sprint(i), Body: payload})
		}
		w.made++
	}
	return batches, w.store.Put(ctx, all, nil)
}

func (w *windows) do(ctx context.Context, n int) error {
	into, page := stores.Messages(1), make([]window.Record, 2*records)
	return each(ctx, n, func(n int) error {
		batches, err := w.put(ctx, n)
		if err != nil {
			return err
		}
		w.gone += n
		for _, batch := range batches {
			if was, err := w.store.CloseNow(ctx, batch); err != nil {
				return err
			} else if !was {
				return fmt.Errorf("window %s is not active", batch)
			}
			if _, err := w.from.Receive(ctx, into); err != nil {
				return err
			}
			got, err := w.store.Page(ctx, into[0].Mark, "", page)
			if err == nil {
				err = missing(got.N, records, "records of a window")
			}
			if err != nil {
				return err
			}
			if err := w.from.Settle(ctx, []tidemill.Settlement{{ID: into[0].ID, Mark: into[0].Mark, Fate: tidemill.Delivered}}); err != nil {
				return err
			}
		}
		_, err = w.store.Sweep(ctx)
		return err
	})
}

// docs are documents of 28 days of the search index. Work indexes some more.
type docs struct {
	plain
	store search.Store
}

func newDocs(s *stores.Stores) job { return &docs{store: s.Search} }

// alike is how many documents have the same rare word.
const alike = 20

func rare(i int) string { return "word" + id(i / alike)[:12] }

// add indexes documents of about 500 bytes, of random ids, each with a rare word and one of 300 codes.
func (d *docs) add(ctx context.Context, n int) error {
	return each(ctx, n, func(n int) error {
		all := make([]search.Doc, n)
		for i := range all {
			k := d.made
			d.made++
			day := fmt.Sprintf("2025-03-%02d", 1+k/step%28)
			all[i] = search.Doc{Schema: search.Events().Name, Day: day, ID: id(k), Body: fmt.Appendf(nil, `{"globalEventId":%d,"eventDate":"%sT%02d:%02d:00Z","actor1Name":"United States","actor1CountryCode":"USA","actor2Name":"%s","eventCode":"%d","quadClass":%d,"goldsteinScale":%d.5,"avgTone":-%d.25,"numMentions":%d,"actionGeoFullName":"Paris, France","actionGeoCountryCode":"FR","sourceUrl":"https://example.com/news/%s"}`,
				k, day, k%24, k%60, rare(k), k%300, k%4, k%10, k%7, k%50, id(k))}
		}
		return d.store.Index(ctx, all)
	})
}

func (d *docs) do(ctx context.Context, n int) error { return d.add(ctx, n) }

func (d *docs) pages() (all []page) {
	at := 0 // each search is of another one
	for _, q := range []struct {
		name string
		text func() string
	}{
		{"all, newest first", func() string { return "" }},
		{"a rare word", func() string { return rare(at * 7919 % d.made) }},
		{"a word of all", func() string { return "united" }},
		{"a word of all and a field", func() string { return fmt.Sprint("united eventCode:", at%300) }},
	} {
		all = append(all, page{"search of " + q.name, func(ctx context.Context) (time.Duration, error) {
			at++
			text, began := q.text(), time.Now()
			got, err := d.store.Search(ctx, search.Query{Schema: search.Events().Name, Text: text, Size: 50})
			took := time.Since(began)
			if err == nil && len(got.Hits) == 0 {
				err = fmt.Errorf("nothing is found for %q", text)
			}
			return took, err
		}})
	}
	return all
}
