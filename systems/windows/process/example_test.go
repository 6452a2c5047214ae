package process_test

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
)

func Example() {
	filter, err := process.Filter{Keep: `(numMentions ?? 0) > 1`}.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	shout := process.Each("shout", func(_ context.Context, _ string, it *process.Item) error {
		name, _ := it.Record.Text(record.Actor1Name)
		return it.Record.SetText(record.Actor1Name, name+"!")
	})
	chain, err := process.New([]process.Step{{Processor: filter}, {Processor: shout, Kind: record.Event}}, process.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	run := chain.Begin("20250323151500")
	page := []process.Item{
		{Kind: record.Event, Raw: []byte(`{"globalEventId":1,"numMentions":5,"actor1Name":"GERMANY"}`)},
		{Kind: record.Event, Raw: []byte(`{"globalEventId":2,"numMentions":1}`)},
		{Kind: record.Event, Raw: []byte(`{"globalEventId":"3"}`)},
	}
	if err := run.Page(context.Background(), page); err != nil {
		fmt.Println(err)
		return
	}
	for i := range page {
		it := &page[i]
		if it.Fate != tidemill.None {
			fmt.Println(it.Fate, it.Why)
			continue
		}
		name, _ := it.Record.Text(record.Actor1Name)
		fmt.Printf("%s goes on as %s\n", it.Record.AppendKey(nil), name)
	}
	// Output:
	// 1 goes on as GERMANY!
	// skipped filtered
	// dead the event is refused: globalEventId is a text, want an integer or null
}
