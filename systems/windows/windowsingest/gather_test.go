package windowsingest

import (
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
)

func TestRequestsThatComeMeanwhileShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newEndpoint(t)
		hold := make(chan struct{})
		d.windows.set(nil, hold)
		answers := make(chan string)
		post := func(body string) {
			go func() { answers <- d.post(body).Body.String() }()
			synctest.Wait()
		}
		for i := range 50 {
			post(event(i))
		}
		post("[" + event(100) + "," + event(100) + "," + event(101) + "]")
		if got := d.windows.puts(); !slices.Equal(got, []int{1, 1}) {
			t.Errorf("calls of %v records are under way", got)
		}
		close(hold)
		all := map[string]int{}
		for range 51 {
			all[<-answers]++
		}
		if all[counted(1, 0)] != 50 || all[counted(2, 1)] != 1 {
			t.Errorf("answers %v", all)
		}
		if got := d.windows.puts(); len(got) > 4 { // each of the two that end names one to lead
			t.Errorf("calls of %v records", got)
		}
	})
}

func TestASharedCallHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newEndpoint(t)
		hold := make(chan struct{})
		d.windows.set(nil, hold)
		answers := make(chan *httptest.ResponseRecorder)
		const requests, each = 10, 3000
		for n := range requests {
			go func() {
				answers <- d.post("[" + several(each, func(i int) string { return event(n*each + i) }, ",") + "]")
			}()
			synctest.Wait()
		}
		close(hold)
		for range requests {
			want(t, <-answers, 202, counted(each, 0))
		}
		for _, n := range d.windows.puts() {
			if n*recordMemory > putSize {
				t.Errorf("%d records in a call", n)
			}
		}
		d.idle()
	})
}

// Whatever comes at the same time, each answer is right: of one name one request has the
// accepted record, and all others a duplicate.
func TestManyAtOnce(t *testing.T) {
	each(t, func(t *testing.T, d *testEndpoint) {
		const clients, requests, names = 8, 20, 40
		file := gdelttest.Batch{Stamp: batch, Events: names, First: 1000}
		d.files = make(chan struct{}, clients)
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				for i := range requests {
					var w *httptest.ResponseRecorder
					switch i % 4 {
					case 0:
						w = d.post("[" + several(names, event, ",") + "]")
					case 1:
						w = d.ask("POST", Path+"/mentions", several(names, func(n int) string { return mention(n, c) }, "\n"), ndjson)
					case 2:
						w = d.ask("POST", Path+"/files?name="+batch+".export.CSV", string(file.Export()), nil)
					default:
						w = d.post(event(c*requests + i))
					}
					if w.Code != 202 {
						t.Errorf("%d %s", w.Code, w.Body)
					}
				}
			})
		}
		all.Wait()
		d.idle()
		kept := d.kept(batch)
		got := d.Handled()
		if int(got.Accepted) != len(kept) || got.Rejected+got.Unkept+got.Limited != 0 {
			t.Errorf("handled %+v, %d are kept", got, len(kept))
		}
		wantKept := 2*names + clients*names // events, rows, mentions, and single events beyond those
		for c := range clients {
			for i := 3; i < requests; i += 4 {
				if c*requests+i >= names {
					wantKept++
				}
			}
		}
		if len(kept) != wantKept {
			t.Errorf("%d are kept, want %d", len(kept), wantKept)
		}
		stats, err := d.windows.Stats(t.Context())
		if err != nil || stats.Of(window.Active).Records != int64(wantKept) {
			t.Errorf("%+v, %v", stats, err)
		}
	})
}
