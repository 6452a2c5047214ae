package windows_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// A window ends by the processors that it began with; the next one goes by those that are in force then.
// A processor whose name stays goes on counting.
func TestProcessorsChangeBetweenWindows(t *testing.T) {
	in(t, func(w *world) {
		slow := process.Each("seen", func(context.Context, string, *process.Item) error { time.Sleep(time.Second); return nil })
		w.up(windows.Options{}, process.Step{Processor: slow})
		for i := range 10 {
			w.send("a", "event", event(i)) // numMentions is the last digit
		}
		rest(66 * time.Second) // the window is being delivered
		w.same("sent while it is delivered", w.found(search.Events().Name), 0)
		next := must(process.New([]process.Step{{Processor: must(process.Filter{ID: "few", Keep: "numMentions > 4"}.New())},
			{Processor: process.Each("seen", func(context.Context, string, *process.Item) error { return nil })}}, process.Options{}))
		w.sys.Process(next)
		rest(20 * time.Second)
		w.same("of the window that had begun", w.found(search.Events().Name), 10)
		for i := range 10 {
			w.send("b", "event", event(100+i))
		}
		rest(80 * time.Second)
		w.same("books", w.books(windows.Delivered), "accepted 20, delivered 15, skipped 5, dead 0, in flight 0")
		all := w.sys.Processors()
		w.same("processors", len(all), 3)
		w.same("read", all[0].Records, 20)
		w.same("filtered", all[1].Processor+" ", "few ")
		w.same("filtered by the new one", all[1].Skipped, 5)
		w.same("seen by the old and the new one", all[2].Records, 15)
	})
}
