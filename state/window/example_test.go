package window_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
)

// Records of one batch come from two topics, one of them twice, and are processed together.
func Example() {
	ctx := context.Background()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	store, err := tablewindow.Memory(window.Options{Window: time.Minute, Now: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	records := []window.Record{
		{Batch: "20250323151500", Kind: "event", ID: "7", Body: []byte(`{"globalEventId":7}`)},
		{Batch: "20250323151500", Kind: "mention", ID: "7_https://news.example", Qualifier: "1", Body: []byte(`{"sentenceId":1}`)},
		{Batch: "20250323151500", Kind: "event", ID: "7", Body: []byte(`{"globalEventId":7}`)},
	}
	kept := make([]window.Kept, len(records))
	if err := store.Put(ctx, records, kept); err != nil {
		log.Fatal(err)
	}
	fmt.Println("new:", kept[0] == window.New, kept[1] == window.New, kept[2] == window.New)

	now = now.Add(time.Minute)
	if _, err := store.Sweep(ctx); err != nil {
		log.Fatal(err)
	}
	source := store.Open() // in production the source of a pipeline
	m := new(tidemill.Message)
	if _, err := source.Receive(ctx, []*tidemill.Message{m}); err != nil {
		log.Fatal(err)
	}
	page := make([]window.Record, 100)
	for from, first := "", true; first || from != ""; first = false {
		p, err := store.Page(ctx, m.Mark, from, page)
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range page[:p.N] {
			fmt.Println(r.Kind, r.ID, string(r.Body))
		}
		from = p.Next
	}
	done := tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered, Records: tidemill.Count{Delivered: 2}}
	if err := source.Settle(ctx, []tidemill.Settlement{done}); err != nil {
		log.Fatal(err)
	}
	books, err := source.(tidemill.Bookkeeper).Books(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("accepted", books.Accepted, "delivered", books.Settled.Delivered, "off", books.Off())
	// Output:
	// new: true true false
	// event 7 {"globalEventId":7}
	// mention 7_https://news.example {"sentenceId":1}
	// accepted 2 delivered 2 off 0
}
