package windows_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
)

// nowhere is a sink that keeps nothing.
type nowhere struct{}

func (nowhere) Write(context.Context, []*tidemill.Message) error { return nil }

// heap is how many MiB are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // pooled memory is free after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc >> 20)
}

// A large record now and then, anywhere in its page, must not make memory grow for good.
func TestLargeRecordsLeaveNoMemoryBehind(t *testing.T) {
	in(t, func(w *world) {
		w.out.Sink = nowhere{}
		w.up(windows.Options{AtOnce: 1})
		before := heap()
		const most = 60
		for i := range most {
			batch := fmt.Sprint("b", i)
			rs := make([]window.Record, i+1)
			for k := range rs {
				rs[k] = window.Record{Batch: batch, Kind: "event", ID: fmt.Sprint(k), Body: fmt.Appendf(nil, `{"globalEventId":%d}`, k)}
			}
			rs[i].Body = fmt.Appendf(nil, `{"globalEventId":%d,"actor1Name":%q}`, i, strings.Repeat("x", 900_000))
			if err := w.windows.Put(w.Context(), rs, nil); err != nil {
				w.Fatal(err)
			}
			if _, err := w.windows.CloseNow(w.Context(), batch); err != nil {
				w.Fatal(err)
			}
			rest(time.Second)
		}
		w.same("books", w.books(windows.Delivered), fmt.Sprintf("accepted %d, delivered %[1]d, skipped 0, dead 0, in flight 0", most*(most+1)/2))
		if grown := heap() - before; grown > 40 {
			w.Errorf("%d MiB are kept after %d large records, none of which is on its way", grown, most)
		}
	})
}
