//go:build servers

package faults

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/tidemill/tidemill/systems/windows"
)

// TestWindowsTheIndexRefusesSome has an index with a foreign template of a wrong type, and in
// front of it a server that is sometimes too busy. Documents refused for good end as dead
// letters and as copies on their topic with the cause; all others arrive.
func TestWindowsTheIndexRefusesSome(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) {
		wrong := "actor2GeoCountryCode" // of most events; null in the others
		w.wrongTemplate(wrong)
		busy := newWindowsBusyIndex(w, w.index)
		w.set("TIDEMILL_WINDOWS_SEARCH_URL", busy.URL)
		w.run(1)
		items := w.batches(0, *windowsFlag/2, windowsSize)
		refused := 0
		for n, i := range items {
			if dayless := n%50 == 7; i.kind == "event" && (i.cells[cell("event", wrong)] != "" || dayless) {
				if i.ends = "index"; dayless {
					i.cells[cell("event", "day")] = ""
				}
				refused++
			}
		}
		<-w.produce(items, windowsProducing{Rate: 1000})
		o := w.look(afterWindows)
		busy.calm.Store(true)
		w.complain(w.judgeWithout(o, wrong))
		w.struck("documents that are refused for good", 20, refused)
		w.struck("documents that are not", 20, len(items)-refused)
		w.struck("requests that were answered 429", 1, int(busy.whole.Load()))
		w.struck("documents that were answered 429", 20, int(busy.items.Load()))

		// The index is fixed, and the dead letters are opened again.
		w.deleteIndices(w.Context())
		w.askIndex(http.MethodDelete, "/_index_template/"+w.service, "", nil)
		w.running().Ask("dead", "replay", "--pipeline", "windows-index-events", "--json")
		w.until(30*time.Second, "letters are indexed", func() bool {
			for _, l := range windowsLines[windowsLetter](w, "dead") {
				if l.State != "held" {
					return false
				}
			}
			return true
		})
		dayless := 0
		for _, i := range items {
			if i.ends == "index" && i.cells[cell("event", "day")] == "" {
				dayless++
			}
		}
		o = w.look(afterWindows)
		if len(o.docs["event"]) != refused-dayless || len(o.letters) != dayless {
			w.Errorf("after the replay the index has %d events, want %d; there are %d letters, want %d", len(o.docs["event"]), refused-dayless, len(o.letters), dayless)
		}
		if !o.audit.Balanced {
			w.Errorf("after the replay the books say %+v", o.audit)
		}
	})
}

// judgeWithout is judge, except for the type of one field.
func (w *windowsWorld) judgeWithout(o windowsOutcome, field string) (faults []string) {
	w.Helper()
	for _, f := range w.judge(o, windowsAllowance{}) {
		if f != "the index has "+field+` as "double", want keyword` {
			faults = append(faults, f)
		}
	}
	return faults
}

// wrongTemplate makes a template for this world's events that goes before all others, with one
// type that does not fit.
func (w *windowsWorld) wrongTemplate(field string) {
	w.Helper()
	properties := map[string]any{}
	for _, part := range splitTypes(windowsTypes["event"]) {
		properties[part[1]] = map[string]any{"type": part[0]}
	}
	properties[field] = map[string]any{"type": "double"}
	b, err := json.Marshal(map[string]any{"index_patterns": []string{w.indexOf("event")}, "priority": 500, "template": map[string]any{
		"settings": map[string]any{"index": map[string]any{"number_of_shards": 1, "number_of_replicas": 0}},
		"mappings": map[string]any{"dynamic": false, "properties": properties}}})
	if err != nil {
		w.Fatal(err)
	}
	w.askIndex(http.MethodPut, "/_index_template/"+w.service, string(b), nil)
	w.Cleanup(func() { // if the test failed before it was removed
		r, err := http.NewRequest(http.MethodDelete, w.index+"/_index_template/"+w.service, nil)
		if err == nil {
			if resp, err := http.DefaultClient.Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}
	})
}

// TestWindowsLateRecords sends newer versions while their windows are being delivered and
// after they are gone: none is lost, the newest is the last, and nothing is sent twice.
func TestWindowsLateRecords(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) {
		service := newWindowsService(w)
		w.config = map[string]any{"processors": []any{service.processor()}}
		w.set("TIDEMILL_WINDOWS_AT_ONCE", 4)
		w.run(2)
		items := w.batches(0, 3, windowsSize)
		service.wait()
		<-w.produce(items, windowsProducing{})
		w.until(20*time.Second, "windows are being delivered", func() bool { return w.status().States["leased"].Windows == 3 })
		<-w.produce(items[:len(items)/2], windowsProducing{}) // produce makes a newer version of each
		w.stored(20 * time.Second)
		w.until(20*time.Second, "late windows wait behind those", func() bool {
			st := w.status()
			return st.States["leased"].Windows == 3 && st.States["ready"].Windows == 3
		})
		service.let()
		w.quiet(afterWindows)
		<-w.produce(items[len(items)/4:3*len(items)/4], windowsProducing{})
		o := w.finish(windowsAllowance{})
		want := 2 * len(items)
		if got := len(o.topics["event"]) + len(o.topics["mention"]); got != want {
			w.Errorf("%d messages are on the topics, want %d: every version once", got, want)
		}
		if b := booksOf(o.audit, windows.Delivered); int(b.Delivered) != want || int(b.Accepted) != want {
			w.Errorf("the books say %+v, want %d delivered", b, want)
		}
	})
}
