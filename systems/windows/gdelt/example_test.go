package gdelt_test

import (
	"context"
	"fmt"
	"os"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// The rows of a folder go through a pipeline until all have ended.
func Example() {
	dir, err := os.MkdirTemp("", "gdelt")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if _, err := (gdelttest.Batch{Stamp: "20250323151500", Events: 1000, Mentions: 2000}).Write(dir, true); err != nil {
		fmt.Println(err)
		return
	}
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := gdelt.NewFolder(dir, tableprogress.Memory(tableprogress.Options{}), letters, gdelt.Options{Quiet: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()

	ctx, stop := context.WithCancel(context.Background())
	left, inBatch := 3000, map[string]int{}
	steps := flow.Steps[record.Record]{
		Decode: func(m *tidemill.Message, r *record.Record) error {
			kind, err := record.ParseKind(m.Type)
			if err != nil {
				return tidemill.Fail(tidemill.Validation, "%w", err)
			}
			batch, err := record.BatchID(m.Header, "")
			if err != nil {
				return err
			}
			inBatch[batch]++
			return record.Decode(kind, m.Payload, r)
		},
		Stages: []flow.Stage[record.Record]{{Name: "count", Do: func(_ context.Context, batch []*flow.Item[record.Record]) error {
			if left -= len(batch); left == 0 {
				stop()
			}
			return nil
		}}},
	}
	engine, err := flow.New(flow.Pipeline{Name: "windows", Source: source, Work: steps.Lane, Dead: letters, Batch: 500})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := engine.Run(ctx); err != nil {
		fmt.Println(err)
	}
	books, err := source.Books(context.Background())
	fmt.Println(inBatch, err)
	fmt.Printf("%d accepted, %d delivered, off by %d\n", books.Accepted, books.Settled.Delivered, books.Off())
	// Output:
	// map[20250323151500:3000] <nil>
	// 3000 accepted, 3000 delivered, off by 0
}
