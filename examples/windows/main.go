// Command windows embeds the windows system in a program: window store, processors, topics
// (queues here), dead letters and a search index are parts of this one process. Records of a
// batch come in, in any order and some of them late. Each batch is processed as one, delivered
// completely, and can be searched.
//
//	go run ./examples/windows                  # all in memory, gone at the end
//	go run ./examples/windows -file news.db    # durable: run it twice, the index has each record once
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/open"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/memorysearch"
	"github.com/tidemill/tidemill/systems/windows/search/sqlitesearch"
)

var batch = record.NewBatch(project.ID("default"), "20260115100000")

// brought are records in order of arrival. One comes twice, and one document mentions an event
// in two sentences.
var brought = []struct {
	kind record.Kind
	body string
}{
	{record.Event, `{"globalEventId": 1, "day": 20260115, "actor1Name": "BERLIN", "eventCode": "141", "numMentions": 7, "avgTone": -8.5}`},
	{record.Mention, `{"globalEventId": 1, "mentionTimeDate": 20260115100000, "mentionIdentifier": "https://example.com/a", "sentenceId": 1}`},
	{record.Event, `{"globalEventId": 2, "day": 20260115, "actor1Name": "PARIS", "eventCode": "043", "numMentions": 1, "avgTone": 2}`},
	{record.Mention, `{"globalEventId": 1, "mentionTimeDate": 20260115100000, "mentionIdentifier": "https://example.com/a", "sentenceId": 4}`},
	{record.Event, `{"globalEventId": 1, "day": 20260115, "actor1Name": "BERLIN", "eventCode": "141", "numMentions": 9, "avgTone": -8.5}`},
}

// late comes after its batch was delivered.
const late = `{"globalEventId": 3, "day": 20260115, "actor1Name": "ROME", "eventCode": "112", "numMentions": 4, "avgTone": -1}`

func main() {
	file := flag.String("file", "", "a file that keeps all of it; empty: it is in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *file); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, file string) error {
	s, err := inMemory()
	if file != "" {
		db, problem := open.SQLite(ctx, file)
		if problem != nil {
			return problem
		}
		defer db.Close()
		s, err = inFile(ctx, db)
	}
	if err != nil {
		return err
	}
	chain, err := processors()
	if err != nil {
		return err
	}
	events, err1 := topic(ctx, s.queues, "processor-event")
	mentions, err2 := topic(ctx, s.queues, "processor-mention")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	delivered, indexed := make(chan int, 16), make(chan int, 16) // settlements: of windows, and of the index
	sys, err := windows.New(windows.Parts{
		Windows: s.windows, DeadLetters: s.letters, Chain: chain, Out: windows.Each(queue.Sink(s.queues)), Index: s.index,
		Readers: []windows.Reader{{Name: "index-events", Source: events, Schema: search.Events()}, {Name: "index-mentions", Source: mentions, Schema: search.Mentions()}},
	}, windows.Options{BySentence: true, Settled: func(pipeline string, ends []tidemill.Settlement) {
		if pipeline == windows.Delivered {
			delivered <- len(ends)
		} else {
			indexed <- len(ends)
		}
	}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()

	work := func() error {
		for _, b := range brought {
			if err := put(ctx, out, sys, b.kind, b.body); err != nil {
				return err
			}
		}
		// Its time is a minute, but the example closes it at once. One event is filtered, three
		// records are left.
		if err := deliver(ctx, sys, delivered, indexed, 3); err != nil {
			return err
		}
		if err := put(ctx, out, sys, record.Event, late); err != nil {
			return err
		}
		if err := deliver(ctx, sys, delivered, indexed, 1); err != nil {
			return err
		}
		return report(ctx, out, sys)
	}()
	stop()
	return errors.Join(work, <-ended)
}

// stores are the stores of the system.
type stores struct {
	windows window.Store
	letters deadletter.Store
	queues  queue.Store
	index   search.Store
}

// inMemory are stores that last as long as the process.
func inMemory() (s stores, err error) {
	s.queues = memoryqueue.New(memoryqueue.Options{})
	if s.windows, err = tablewindow.Memory(window.Options{}); err != nil {
		return s, err
	}
	if s.letters, err = tabledeadletter.Memory(deadletter.Options{}); err != nil {
		return s, err
	}
	s.index, err = memorysearch.New(memorysearch.Options{}, search.Events(), search.Mentions())
	return s, err
}

// inFile are stores in one file.
func inFile(ctx context.Context, db *open.SQLiteDB) (s stores, err error) {
	if s.queues, err = sqlitequeue.New(ctx, db, sqlitequeue.Options{}); err != nil {
		return s, err
	}
	rows, err := sqlitetable.New(ctx, db, tablewindow.Spec())
	if err != nil {
		return s, err
	}
	blobs, err := sqlitetable.New(ctx, db, tablewindow.BlobSpec())
	if err != nil {
		return s, err
	}
	if s.windows, err = tablewindow.New(ctx, rows, blobs, tablewindow.Options{}); err != nil {
		return s, err
	}
	letters, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return s, err
	}
	if s.letters, err = tabledeadletter.New(ctx, letters, tabledeadletter.Options{}); err != nil {
		return s, err
	}
	s.index, err = sqlitesearch.New(db, sqlitesearch.Options{}, search.Events(), search.Mentions())
	return s, err
}

// topic is a queue that keeps the order of each key, from its first record on.
func topic(ctx context.Context, queues queue.Store, name string) (tidemill.Source, error) {
	if _, err := queues.Set(ctx, name, func(s *queue.Settings) { s.Ordered = true }); err != nil {
		return nil, err
	}
	return queues.Open(name, queue.Options{Ordered: true}), nil
}

// processors are what is done with records: a built-in one, and our own.
func processors() (*process.Chain, error) {
	filter, err := process.Filter{Keep: `kind == "mention" || numMentions > 1`, Reason: "single"}.New()
	if err != nil {
		return nil, err
	}
	mood := process.Each("mood", func(_ context.Context, _ string, it *process.Item) error {
		tone, ok := it.Record.Float(record.AvgTone)
		switch {
		case !ok:
			return nil
		case tone < -5:
			return it.Record.Add("mood", []byte(`"angry"`))
		}
		return it.Record.Add("mood", []byte(`"calm"`))
	})
	return process.New([]process.Step{{Processor: filter}, {Processor: mood, Kind: record.Event}}, process.Options{})
}

// put brings one record of the batch.
func put(ctx context.Context, out io.Writer, sys *windows.System, kind record.Kind, body string) error {
	var read record.Record
	r, err := record.ToWindow(batch, kind, []byte(body), &read)
	if err != nil {
		return err
	}
	kept := make([]window.Kept, 1)
	if err := sys.Put(ctx, []window.Record{r}, kept); err != nil {
		return err
	}
	said := "new"
	if kept[0] == window.Overwrote {
		said = "known, and replaced"
	}
	_, err = fmt.Fprintf(out, "%s %s %s: %s\n", kind, r.ID, r.Qualifier, said)
	return err
}

// deliver closes the window, and waits until it is delivered and so many records of it are
// indexed.
func deliver(ctx context.Context, sys *windows.System, delivered, indexed <-chan int, records int) error {
	if _, err := sys.Windows().CloseNow(ctx, batch.String()); err != nil {
		return err
	}
	for windows := 1; windows > 0 || records > 0; {
		select {
		case n := <-delivered:
			windows -= n
		case n := <-indexed:
			records -= n
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// report shows the search results, and the books.
func report(ctx context.Context, out io.Writer, sys *windows.System) error {
	for _, q := range []search.Query{{Schema: "events", Text: "numMentions:>1", Oldest: true}, {Schema: "mentions", Oldest: true}} {
		page, err := sys.Search(ctx, q)
		if err != nil {
			return err
		}
		for _, h := range page.Hits {
			fmt.Fprintf(out, "found in %s: %s\n", q.Schema, h.ID)
		}
	}
	a, err := sys.Audit(ctx)
	if err != nil {
		return err
	}
	for _, p := range a.Pipelines {
		fmt.Fprintf(out, "%s: accepted %d = delivered %d + skipped %d + dead %d\n", p.Pipeline, p.Accepted, p.Delivered, p.Skipped, p.Dead)
	}
	fmt.Fprintf(out, "balanced: %v\n", a.Balanced)
	return nil
}
