package windowsingest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/state/window"
)

var ndjson = header{"Content-Type": "application/x-ndjson"}

func TestRecordsAreStoredAsTheyCome(t *testing.T) {
	each(t, func(t *testing.T, d *testEndpoint) {
		odd := `{ "day" : 20250323, "extra":[1.50,{"b":1,"a":99999999999999999999}],"globalEventId": 1 }`
		want(t, d.post(" \n"+odd+"\r\n"), 202, counted(1, 0))
		want(t, d.post(odd), 202, counted(0, 1))
		want(t, d.ask("POST", Path+"/events", "["+event(2)+" , "+event(3)+"\n,"+event(2)+"]", header{"Content-Type": "application/json; charset=UTF-8"}), 202, counted(2, 1))
		want(t, d.ask("POST", Path+"/mentions", "\n"+mention(1, 1)+"\r\n\n  "+mention(1, 2)+" \n"+mention(4, 1), ndjson), 202, counted(3, 0))
		want(t, d.ask("POST", Path+"/events", zipped(event(5)), header{"Content-Encoding": "gzip"}), 202, counted(1, 0))
		want(t, d.ask("POST", Path+"/events", zstandard(event(6)), header{"Content-Encoding": "zstd"}), 202, counted(1, 0))
		d.idle()
		got := d.kept(batch)
		for name, body := range map[string]string{"event 1 ": odd, "event 2 ": event(2), "event 3 ": event(3), "event 5 ": event(5), "event 6 ": event(6),
			"mention 1_https://example.com/1 1": mention(1, 1), "mention 1_https://example.com/1 2": mention(1, 2), "mention 4_https://example.com/4 1": mention(4, 1)} {
			if got[name] != body {
				t.Errorf("%s is %q, want %q", name, got[name], body)
			}
		}
		if len(got) != 8 {
			t.Errorf("records %v", slices.Sorted(maps.Keys(got)))
		}
		if got := d.Handled(); got != (Handled{Requests: 6, Accepted: 8, Duplicate: 2}) {
			t.Errorf("handled %+v", got)
		}
	})
}

func TestBatchIDs(t *testing.T) {
	own := func(o *Options) { o.Header = "X-Run" }
	for _, c := range []struct {
		name   string
		query  string
		h      header
		change func(*Options)
		want   string // empty: it is refused
		word   string
	}{
		{"of the header", "", header{"X-Batch-ID": "a"}, nil, "a", ""},
		{"quoted", "", header{"X-Batch-ID": `"a b"`}, nil, "a b", ""},
		{"of the other header", "", header{"X-Batch-ID": "", "batchId": "a"}, nil, "a", ""},
		{"of the query", "?batch=a%20b", header{"X-Batch-ID": ""}, nil, "a b", ""},
		{"everywhere the same", "?batch=a", header{"X-Batch-ID": `"a"`, "batchid": "a"}, nil, "a", ""},
		{"of a header of one's own", "", header{"X-Batch-ID": "", "x-run": "a"}, own, "a", ""},
		{"the usual header, where there is one of one's own", "", nil, own, "", "missing_batch_id"},
		{"none", "", header{"X-Batch-ID": ""}, nil, "", "missing_batch_id"},
		{"an empty one", "?batch=", header{"X-Batch-ID": ""}, nil, "", "bad_batch_id"},
		{"two", "?batch=b", header{"X-Batch-ID": "a"}, nil, "", "bad_batch_id"},
		{"two in headers", "", header{"X-Batch-ID": "a", "batchId": "b"}, nil, "", "bad_batch_id"},
		{"two in the query", "?batch=b&batch=a", header{"X-Batch-ID": ""}, nil, "", "bad_batch_id"},
		{"a long one", "", header{"X-Batch-ID": strings.Repeat("x", 256)}, nil, "", "bad_batch_id"},
		{"no UTF-8", "?batch=%ff", header{"X-Batch-ID": ""}, nil, "", "bad_batch_id"},
		{"a control character", "?batch=%00", header{"X-Batch-ID": ""}, nil, "", "bad_batch_id"},
		{"a query that is none", "?batch=%zz", nil, nil, "", "bad_query"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newEndpoint(t)
			if c.change != nil {
				d = newEndpoint(t, c.change)
			}
			w := d.ask("POST", Path+"/events"+c.query, event(1), c.h)
			if c.want == "" {
				want(t, w, 400, c.word)
				return
			}
			want(t, w, 202, fmt.Sprintf(`{"batch":%q,"accepted":1,"duplicate":0,"rejected":0}`, c.want))
			if len(d.kept(c.want)) != 1 {
				t.Error("it is not there")
			}
		})
	}
}

func TestAnExpectedCountClosesTheWindow(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.Expect = "X-Batch-Count" })
	want(t, d.ask("POST", Path+"/events", event(1), header{"X-Batch-Count": "3"}), 202, counted(1, 0))
	want(t, d.ask("POST", Path+"/mentions", "["+mention(1, 1)+","+mention(1, 2)+"]", nil), 202, counted(2, 0))
	if swept, err := d.windows.Sweep(t.Context()); err != nil || swept.Closed != 1 {
		t.Errorf("%+v, %v", swept, err)
	}
	for _, wrong := range []string{"many", "-1", "1.5", "2147483648"} {
		want(t, d.ask("POST", Path+"/events", event(1), header{"X-Batch-Count": wrong}), 400, "bad_expected_count")
	}
}

func TestWithoutProjectsNoKeyIsNeeded(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.Projects, o.Limits.PerMinute = nil, 1 })
	want(t, d.ask("POST", Path+"/events", event(1), header{"X-API-Key": ""}), 202, counted(1, 0))
	want(t, d.ask("POST", Path+"/events", event(1), nil), 429, "rate_limited")
}

func TestBadRecordsKeepNoGoodOnesOut(t *testing.T) {
	d := newEndpoint(t)
	wrong := `{"globalEventId":"x"}`
	w := d.post(`[` + event(1) + `,` + wrong + `,7,` + event(2) + `,{"globalEventId":3,"day":"` + "\xff" + `"},{"globalEventId":1,"globalEventId":1},[` + event(9) + `]]`)
	want(t, w, 202, `{"batch":"20250323151500","accepted":2,"duplicate":0,"rejected":5,"refused":[`+
		`{"index":1,"message":"the event is refused: globalEventId is a text, want an integer or null"},`+
		`{"index":2,"message":"the event is refused: it is a number, want one object"},`+
		`{"index":4,"message":"the event is refused: it is no JSON: invalid UTF-8 near byte 27"},`+
		`{"index":5,"message":"the event is refused: globalEventId comes twice"},`+
		`{"index":6,"message":"the event is refused: it is an array, want one object"}]}`)
	w = d.ask("POST", Path+"/events", event(3)+"\n\n{\"globalEventId\":4\n"+event(5)+"}\nnull\n"+event(6), ndjson)
	want(t, w, 202, `{"batch":"20250323151500","accepted":2,"duplicate":0,"rejected":3,"refused":[`+
		`{"index":1,"line":3,"message":"the event is refused: it is no JSON: it ends too early"},`+
		`{"index":2,"line":4,"message":"the event is refused: it is no JSON: there is something behind the object"},`+
		`{"index":3,"line":5,"message":"the event is refused: it is null, want one object"}]}`)
	w = d.post(`[` + several(300, func(int) string { return wrong }, ",") + `,` + event(7) + `]`)
	says(t, w, `"accepted":1,"duplicate":0,"rejected":300,`)
	says(t, w, `}],"more":true}`)
	if n := strings.Count(w.Body.String(), `"index"`); n != maxRefused {
		t.Errorf("%d refusals are named", n)
	}
	w = d.post("[" + wrong + "]")
	want(t, w, 422, "validation_failed")
	says(t, w, `"message":"the event is refused: globalEventId is a text, want an integer or null","rejected":1,"refused":[{"index":0,`)
	if got := d.Handled(); got != (Handled{Requests: 4, Accepted: 5, Rejected: 309}) || len(d.kept(batch)) != 5 {
		t.Errorf("handled %+v, records %v", got, d.kept(batch))
	}
}

func TestLargeThingsThatAreAllowed(t *testing.T) {
	d := newEndpoint(t)
	wide := func(id, n int) string {
		return fmt.Sprintf(`{"globalEventId":%d,"sourceUrl":"%s"}`, id, strings.Repeat("x", n))
	}
	for _, c := range []struct{ name, body string }{
		{"10,000 records", "[" + several(10_000, event, ",") + "]"},
		{"a packed request", zipped("[" + several(9_000, func(i int) string { return event(20_000 + i) }, ",") + "]")},
		{"a large record", wide(1, 1<<20-100)},
		{"a body of 8 MiB", "[" + strings.Repeat(" ", 8<<20-2-len(event(1))) + event(1) + "]"},
		{"a large record that is refused alone", "[" + wide(2, 1<<20) + "," + event(1) + "]"},
	} {
		if w := d.post(c.body); w.Code != 202 {
			t.Errorf("%s: %d %.300s", c.name, w.Code, w.Body)
		}
		d.idle()
	}
	if n := len(d.kept(batch)); n != 19_000 {
		t.Errorf("%d records", n)
	}
}

func TestALateRecordOpensAnotherWindow(t *testing.T) {
	d := newEndpoint(t)
	want(t, d.post(event(1)), 202, counted(1, 0))
	if ok, err := d.windows.CloseNow(t.Context(), of("club", batch)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	want(t, d.post(event(1)), 202, counted(1, 0))
	n := 0
	for range d.windows.List(t.Context(), window.Filter{Batch: of("club", batch)}) {
		n++
	}
	if n != 2 {
		t.Errorf("%d windows", n)
	}
}
